/* orders.h - what a zygote is to be told: which ranks to make, and when to fork them. An order
 * waits here until the zygote's socket has room. README.md, "Agent and zygote". */
#ifndef WORKER_AGENT_PROCESSES_ORDERS_H
#define WORKER_AGENT_PROCESSES_ORDERS_H

#include <stdbool.h>

#include "base/slice.h"
#include "worker/agent/processes/worker_ends.h"

struct order;

struct orders {
    struct order *first, *last;
};

/* Make a rank: START for it alone, and its ends, which are taken, also on failure. */
MUST_USE int orders_add_rank(struct orders *o, struct slice start, struct worker_ends *ends,
                             struct err *err);
/* Fork all ranks that were ordered before. */
MUST_USE int orders_add_fork(struct orders *o, struct err *err);
void orders_send(struct orders *o, int fd); /* as many as the socket has room for */
bool orders_are_none(const struct orders *o);
void orders_drop(struct orders *o);

#endif
