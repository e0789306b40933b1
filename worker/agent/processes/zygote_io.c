/* SPDX-License-Identifier: BSD-3-Clause */
/* zygote_io.c - the socket of a zygote (declared in worker.h). */
#include "worker/agent/processes/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/unix_socket.h"

#define PACKETS_PER_TURN 64

void zygote_make_room(const struct workers *all)
{
    struct rlimit limit;
    rlim_t want = 256;

    for (const struct worker *w = all->first; w; w = w->next)
        want += 16;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want ||
        limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = want * 2 < limit.rlim_max ? want * 2 : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* 0, or an errno. */
static int send_one(int fd, const struct order *o)
{
    union descriptor_room room;
    const int fds[4] = { o->ends.link, o->ends.out, o->ends.errs, o->ends.stack };
    struct iovec iov = { (void *)(uintptr_t)o->p, o->n };
    struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

    descriptors_attach(&h, &room, fds, fds[0] >= 0 ? 4 : 0);
    return sendmsg(fd, &h, MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* Sends as many orders as the socket has room for. */
static void send_orders(struct worker *z)
{
    while (z->orders.first) {
        const int why = send_one(z->link_fd, z->orders.first);

        /* ETOOMANYREFS: too many descriptors are on their way. The socket stays writable, so this
         * is tried again. */
        if (why == EAGAIN || why == EWOULDBLOCK || why == EINTR || why == ETOOMANYREFS)
            return;
        if (why) /* the end of the zygote, or of the rank, will be reported */
            log_info("zygote", "can't be told: %s", strerror(why));
        orders_pop(&z->orders);
    }
}

void zygote_read(struct worker *z)
{
    char *p = z->all->io.read_buf;

    for (int i = 0; i < PACKETS_PER_TURN && z->link_fd >= 0; i++) {
        /* descriptors in the packet are not taken */
        const ssize_t n = recv(z->link_fd, p, PIPES_READ_SIZE, 0);

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return;
        if (n <= 0)
            worker_unlink(z);
        else
            zygote_says(z, slice_of(p, (size_t)n));
    }
}

void zygote_event(void *zygote, int fd, unsigned events)
{
    struct worker *z = zygote;

    (void)fd;
    if ((events & LOOP_WRITE) && z->link_fd >= 0) {
        send_orders(z);
        worker_watch(z);
    }
    if (events & (LOOP_READ | LOOP_HANGUP))
        zygote_read(z);
}
