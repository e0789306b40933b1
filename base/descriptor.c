/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "base/descriptor.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/process.h"
#include "base/unix_socket.h"

int descriptor_pair(int fd[2])
{
#ifdef SOCK_CLOEXEC
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd);
#else
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) < 0)
        return -1;
    return fd_cloexec_both(fd);
#endif
}

bool descriptor_is_end(int fd)
{
    struct sockaddr_storage name;
    socklen_t name_size = sizeof name, type_size = sizeof(int);
    int type;

    return getsockname(fd, (struct sockaddr *)&name, &name_size) == 0 &&
           name.ss_family == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_SEQPACKET;
}

void descriptors_attach(struct msghdr *h, union descriptor_room *room, const int *fd, size_t n)
{
    struct cmsghdr *c;

    if (n == 0)
        return;
    memset(room, 0, sizeof *room);
    h->msg_control = room->bytes;
    h->msg_controllen = CMSG_SPACE(n * sizeof *fd);
    c = CMSG_FIRSTHDR(h);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof *fd);
    memcpy(CMSG_DATA(c), fd, n * sizeof *fd);
}

int descriptor_send(int to, const void *p, size_t n, int fd)
{
    struct iovec bytes = { .iov_base = (void *)(uintptr_t)p, .iov_len = n };
    struct msghdr h = { .msg_iov = &bytes, .msg_iovlen = 1 };
    union descriptor_room room;
    ssize_t sent;

    descriptors_attach(&h, &room, &fd, 1);
    do
        sent = sendmsg(to, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

/* The first descriptor that came. Others are closed. */
static int first_of(struct msghdr *h)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(h);
    int first = -1;

    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return -1;
    for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int fd;

        memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
        if (first < 0)
            first = fd;
        else
            fd_close(&fd);
    }
    return first;
}

bool descriptor_recv(int from, void *p, size_t n, int *fd)
{
    struct iovec bytes = { .iov_base = p, .iov_len = n };
    union descriptor_room room;
    struct msghdr h = { .msg_iov = &bytes,
                        .msg_iovlen = 1,
                        .msg_control = room.bytes,
                        .msg_controllen = sizeof room.bytes };
    ssize_t got;

    *fd = -1;
    do
        got = recvmsg(from, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return false;
    *fd = first_of(&h);
    if (*fd >= 0 && ((size_t)got != n || (h.msg_flags & MSG_TRUNC) ||
                     (!MSG_CMSG_CLOEXEC && fd_cloexec(*fd) < 0)))
        fd_close(fd);
    return got > 0;
}
