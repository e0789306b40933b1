/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptor.h - passes file descriptors between processes of one machine: a pair of unix sockets
 * on which each packet brings one descriptor. */
#ifndef BASE_DESCRIPTOR_H
#define BASE_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/err.h"

MUST_USE int descriptor_pair(int fd[2]); /* both ends close-on-exec; -1 and errno */
bool descriptor_is_end(int fd);          /* is fd one end of such a pair? */
/* Sends one packet of n bytes with fd, which the caller keeps. Never blocks. -1 and errno. */
MUST_USE int descriptor_send(int to, const void *p, size_t n, int fd);
/* Receives one packet; never blocks. false: there is none. The caller owns *fd, close-on-exec. It
 * is -1 if the packet had no descriptor or not n bytes. */
bool descriptor_recv(int from, void *p, size_t n, int *fd);

/* Room for the descriptors that go with a message. */
#define DESCRIPTORS_MAX 8u
union descriptor_room {
    char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    struct cmsghdr align;
};

/* Attaches n descriptors, at most DESCRIPTORS_MAX, to a message for sendmsg(2). */
void descriptors_attach(struct msghdr *h, union descriptor_room *room, const int *fd, size_t n);

#endif
