/* transport.h - a way for the ranks of a check to talk: NCCL between GPUs, or plain tcp. One timing
 * loop (measure.c) drives both.
 *
 * Every call is made by all ranks of the transport, in the same order. A failed one leaves it of no
 * use but for destroy: the ranks no longer agree where they are. */
#ifndef WORKER_COLLECTIVE_TRANSPORT_H
#define WORKER_COLLECTIVE_TRANSPORT_H

#include "base/err.h"
#include "worker/collective/figures.h"
#include "worker/collective/limit.h"

struct transport;

struct transport_ops {
    const char *name; /* "nccl", "tcp" */
    /* Room for messages of up to `bytes` (a multiple of 4), filled with this rank's pattern. */
    int (*prepare)(struct transport *t, uint64_t bytes, struct err *err);
    /* Runs op `count` times over `bytes`; *ns: what that took here, all of it arrived. */
    int (*run)(struct transport *t, enum coll_op op, uint64_t bytes, unsigned count, uint64_t *ns,
               const struct limit *l, struct err *err);
    /* Compares what the last run brought with what it should have; *bad: elements that differ. */
    int (*verify)(struct transport *t, enum coll_op op, uint64_t bytes, uint64_t *bad,
                  const struct limit *l, struct err *err);
    /* *value becomes rank 0's. */
    int (*share)(struct transport *t, uint64_t *value, const struct limit *l, struct err *err);
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

#endif
