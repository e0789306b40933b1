/* SPDX-License-Identifier: BSD-3-Clause */
/* orders.h - orders to a zygote: which ranks to make, and when to fork them. They wait here until
 * the zygote's socket has room. README.md, "Agent and zygote". Pure, but for worker_pipes.c. */
#ifndef WORKER_AGENT_PROCESSES_ORDERS_H
#define WORKER_AGENT_PROCESSES_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* ---- worker_pipes.c ---- */
/* The socket and the pipes between the agent and a worker: of each, the agent has one end and the
 * worker the other. */

struct worker_pipes {
    int link; /* the socket for messages */
    int out, errs, stack;
};

#define WORKER_ENDS_INIT { -1, -1, -1, -1 }

/* The agent's ends are the reading ones, and nonblocking. The worker's ends stay blocking: a full
 * pipe slows the worker down. -1: *err says why, and what was opened is closed. */
MUST_USE int worker_pipes_open(struct worker_pipes *ours, struct worker_pipes *theirs,
                               struct err *err);
void worker_pipes_close(struct worker_pipes *e);

/* ---- orders.c ---- */
struct order {
    struct order *next;
    struct worker_pipes ends; /* owned; all -1 in ZYGOTE_FORK */
    size_t n;
    uint8_t p[]; /* the packet */
};

struct orders {
    struct order *first, *last;
};

/* Order to make a rank. start: START for this rank alone. Takes `ends`, also on failure. */
MUST_USE int orders_add_rank(struct orders *o, struct slice start, struct worker_pipes *ends,
                             struct err *err);
/* Order to fork all ranks that were ordered before. */
MUST_USE int orders_add_fork(struct orders *o, struct err *err);
void orders_pop(struct orders *o); /* destroys the first, which was sent; there must be one */
bool orders_are_none(const struct orders *o);
void orders_drop(struct orders *o);

#endif
