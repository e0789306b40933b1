/* descriptor.h - open files that change hands between processes of one machine: a pair of sockets
 * whose packets bring one descriptor each. */
#ifndef BASE_DESCRIPTOR_H
#define BASE_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

MUST_USE int descriptor_pair(int fd[2]); /* both ends close-on-exec; -1 and errno */
bool descriptor_is_end(int fd);          /* of such a pair */
/* One packet of n bytes, with fd, which stays the caller's. Never waits. -1 and errno. */
MUST_USE int descriptor_send(int to, const void *p, size_t n, int fd);
/* Takes one packet; never waits. false: there is none. *fd is the caller's, close-on-exec; -1: the
 * packet had none, or was not of n bytes. */
bool descriptor_recv(int from, void *p, size_t n, int *fd);

#endif
