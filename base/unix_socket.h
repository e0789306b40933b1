/* SPDX-License-Identifier: BSD-3-Clause */
/* unix_socket.h - stream sockets that have a path, and how to write to any unix socket without a
 * SIGPIPE. */
#ifndef BASE_UNIX_SOCKET_H
#define BASE_UNIX_SOCKET_H

#include <sys/socket.h>

#include "base/err.h"

/* Where send(2) does not know this flag, unix_no_sigpipe() does the same for the socket. */
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* Where recvmsg(2) does not know this flag, descriptors that came need fd_cloexec(). */
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0
#endif

static inline void unix_no_sigpipe(int fd)
{
#ifdef SO_NOSIGPIPE
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &(int){ 1 }, sizeof(int));
#else
    (void)fd;
#endif
}

/* The sockets that these return are close-on-exec. */

/* A nonblocking socket that listens at the path, where it replaces an old socket. -1 and errno:
 * ENAMETOOLONG for a path of over a hundred bytes. */
MUST_USE int unix_listen(const char *path);
MUST_USE int unix_connect(const char *path); /* -1 and errno */
MUST_USE int unix_accept(int listening);     /* -1 and errno: EAGAIN when nobody waits */

#endif
