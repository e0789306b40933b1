/* unix_socket.h - stream sockets that have a path. All are close-on-exec. */
#ifndef BASE_UNIX_SOCKET_H
#define BASE_UNIX_SOCKET_H

#include "base/err.h"

/* A nonblocking socket that listens at the path, where it replaces an old socket. -1 and errno:
 * ENAMETOOLONG for a path of over a hundred bytes. */
MUST_USE int unix_listen(const char *path);
MUST_USE int unix_connect(const char *path); /* -1 and errno */
MUST_USE int unix_accept(int listening);     /* -1 and errno: EAGAIN when nobody waits */

#endif
