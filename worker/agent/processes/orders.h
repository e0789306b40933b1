/* orders.h - orders to a zygote: which ranks to make, and when to fork them. They wait here until
 * the zygote's socket has room. README.md, "Agent and zygote". */
#ifndef WORKER_AGENT_PROCESSES_ORDERS_H
#define WORKER_AGENT_PROCESSES_ORDERS_H

#include <stdbool.h>

#include "base/slice.h"
#include "worker/agent/processes/worker_ends.h"

struct order;

struct orders {
    struct order *first, *last;
};

/* Order to make a rank. start: START for this rank alone. Takes `ends`, also on failure. */
MUST_USE int orders_add_rank(struct orders *o, struct slice start, struct worker_ends *ends,
                             struct err *err);
/* Order to fork all ranks that were ordered before. */
MUST_USE int orders_add_fork(struct orders *o, struct err *err);
void orders_send(struct orders *o, int fd); /* sends as many as the socket has room for */
bool orders_are_none(const struct orders *o);
void orders_drop(struct orders *o);

#endif
