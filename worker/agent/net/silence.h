/* SPDX-License-Identifier: BSD-3-Clause */
/* silence.h - has the kernel been silent for too long? It is not silent as long as bytes of a
 * message arrive, or a parent is dialed. When the agent must say that it is there, without being
 * asked. */
#ifndef WORKER_AGENT_NET_SILENCE_H
#define WORKER_AGENT_NET_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/beat.h"
#include "base/loop/loop.h"
#include "base/meter.h"

struct silence_ops {
    void (*beat)(void *arg);       /* BEAT is to be sent unasked */
    void (*over)(void *arg);       /* nothing has come for too long */
    bool (*is_moving)(void *arg);  /* a parent is dialed: then the kernel does not ask */
    bool (*is_cut_off)(void *arg); /* there is no connection: nothing is due */
    void *arg;
};

/* Read-only for others than silence.c. */
struct silence {
    struct loop *loop; /* borrowed */
    struct silence_ops ops;
    struct beat beat;
    struct peer_times kernel;
    struct meter meter;  /* counts the bytes that arrive */
    uint64_t said_ns;    /* when the last BEAT was sent */
    uint64_t timeout_ns; /* WELCOME's; 0: nobody listens for silence */
    struct watch *timer; /* owned */
};

void silence_init(struct silence *s, struct loop *loop, const struct silence_ops *ops);
void silence_stop(struct silence *s); /* nothing is called any more */
/* It listens from now on. limit_ns: so long the kernel may be silent. */
void silence_listen(struct silence *s, uint64_t timeout_ns, uint64_t limit_ns);
void silence_heard(struct silence *s);   /* a message has come */
void silence_restart(struct silence *s); /* a new connection: what was before does not count */
void silence_said(struct silence *s);    /* BEAT was sent */

#endif
