/* SPDX-License-Identifier: BSD-3-Clause */
/* relay_io.c - reads workers' sockets and pipes in an order that keeps text in its place (declared
 * in private.h; pipes.h says how). */
#include "worker/agent/private.h"

#include "base/process.h"
#include "worker/agent/output/pipes.h"
#include "worker/agent/processes/worker.h"
#include "worker/link/packet.h"

#define PACKETS_PER_TURN 64
#define PACKETS_AT_END   4096 /* a socket holds fewer */

/* Receives one packet. 1: handled; 0: none is there; 2: the socket has ended. */
static int read_one(struct worker *w)
{
    struct packet p = PACKET_INIT;
    struct err err = { "" };

    if (w->link_fd < 0)
        return 2;
    switch (packet_recv(w->link_fd, &p, &err)) {
    case PACKET_GOT:
        relay_up(w, &p);
        packet_release(&p);
        return 1;
    case PACKET_NONE:
        return 0;
    case PACKET_ERROR:
        worker_broke(w, "it sent a packet that can't be read: %s", err.text);
        return 2;
    case PACKET_END:
        break;
    }
    worker_unlink(w);
    return 2;
}

/* Takes packets until there are none, a bounded number. 0: all were taken; -1: some may be left (a
 * turn's work is done, or credit is out). The worker may be gone afterwards. */
static int read_some(struct worker *w)
{
    for (int i = 0; i < PACKETS_PER_TURN; i++) {
        if (!pipes_may_send(&w->pipes))
            return -1;
        if (read_one(w) != 1)
            return 0;
        if (w->state.gone)
            return 0;
    }
    return -1;
}

void relay_read_rest(struct worker *w)
{
    for (int i = 0; i < PACKETS_AT_END && !w->state.gone; i++)
        if (read_one(w) != 1)
            return;
}

void relay_event(void *worker, int fd, unsigned events)
{
    struct worker *w = worker;

    (void)fd;
    if (events & LOOP_WRITE)
        relay_send_waiting(w);
    if (events & LOOP_HANGUP)
        w->pipes.ended = true; /* nothing follows, so credit need not limit the rest */
    if (events & (LOOP_READ | LOOP_HANGUP))
        (void)read_some(w);
    if (!w->state.gone)
        worker_watch(w);
}

/* ---- text, in its place among the messages (pipes.h) ---- */

void relay_pipe(void *worker, int fd, unsigned events)
{
    struct worker *w = worker;
    struct stream *s = &w->pipes.stream[fd == w->pipes.stream[0].fd ? 0 : 1];
    const size_t waiting = fd_waiting(fd);
    const unsigned drains = w->pipes.drains;
    bool behind;

    if (waiting == 0 && (events & LOOP_HANGUP)) {
        pipes_end(s);
        return;
    }
    /* there are more messages that were sent before these bytes */
    behind = w->role != WORKER_ZYGOTE && read_some(w) < 0 && !(events & LOOP_HANGUP);
    if (w->state.gone || s->fd < 0)
        return;
    if (!behind && w->pipes.drains == drains) /* else they were read for a message */
        pipes_read(s, waiting < PIPES_READ_SIZE ? waiting : PIPES_READ_SIZE);
    worker_watch(w);
}
