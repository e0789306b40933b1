/* SPDX-License-Identifier: BSD-3-Clause */
/* transport.h - how the ranks of a check exchange data: NCCL between GPUs, or plain tcp. One timing
 * loop (measure.c) uses both.
 *
 * All ranks of the transport must make the same calls in the same order. After a failed call only
 * destroy may follow, since the ranks may no longer be at the same step. */
#ifndef WORKER_COLLECTIVE_TRANSPORT_H
#define WORKER_COLLECTIVE_TRANSPORT_H

#include "base/err.h"
#include "worker/collective/comm.h"
#include "worker/collective/figures.h"
#include "worker/collective/deadline.h"
#include "worker/collective/stream.h"

struct transport;

struct transport_ops {
    const char *name; /* "nccl", "tcp" */
    /* Allocates buffers for messages of up to `bytes` (a multiple of 4), and fills in this rank's
     * pattern. */
    int (*prepare)(struct transport *t, uint64_t bytes, struct err *err);
    /* Runs op `count` times with `bytes`; *ns: the time on this rank until all data has arrived. */
    int (*run)(struct transport *t, enum coll_op op, uint64_t bytes, unsigned count, uint64_t *ns,
               const struct deadline *l, struct err *err);
    /* Checks the result of the last run; *bad: number of wrong elements. */
    int (*verify)(struct transport *t, enum coll_op op, uint64_t bytes, uint64_t *bad,
                  const struct deadline *l, struct err *err);
    /* Sets *value to that of rank 0. */
    int (*share)(struct transport *t, uint64_t *value, const struct deadline *l, struct err *err);
    void (*destroy)(struct transport *t);
};

struct transport {
    const struct transport_ops *ops;
    unsigned rank, ranks;
};

static inline void transport_destroy(struct transport *t)
{
    if (t)
        t->ops->destroy(t);
}

/* ---- tcp.c ---- */
/* The transport of a check without GPUs, over tcp: a ring for the all-reduce of float32, a chain
 * for broadcasts. */

/* previous, next: connections to the neighbours (rank - 1) and (rank + 1) modulo `ranks`. Their
 * descriptors are borrowed and must outlive the transport. With one rank there are no neighbours.
 * NULL: out of memory. */
struct transport *tcp_create(unsigned rank, unsigned ranks, struct stream_end previous,
                             struct stream_end next, struct err *err);

/* ---- nccl_transport.c: the transport of a check between GPUs, by NCCL ---- */
/* Always takes ownership of the communicator, also on failure. `l` limits how long destroy waits;
 * it is borrowed until then. NULL: *err says why. */
struct transport *nccl_transport_create(struct comm *comm, unsigned rank, unsigned ranks,
                                        const struct deadline *l, struct err *err);

/* ---- measure.c ---- */
/* The timing loop of a check, for any transport: warm-up, as many iterations as fit into the time,
 * verification. */

#define MEASURE_SIZES_MAX 64u

/* Measures the operations `ops` (a bit for each coll_op) for each size, rounded up to whole
 * float32, within about budget_s seconds in total. When no time is left it omits the other sizes,
 * the same on all ranks. `rows` has room for 3 * n; *n_rows of them are filled, also on failure.
 * -1: *err says in which operation and why. */
MUST_USE int measure(struct transport *t, unsigned ops, const uint64_t *sizes, unsigned n,
                     double budget_s, const struct deadline *l, struct figure *rows,
                     unsigned *n_rows, struct err *err);

#endif
