/* zygote.h - ranks are forked from a Python that has imported already; README.md says what it is
 * told. */
#ifndef WORKER_AGENT_PROCESSES_ZYGOTE_H
#define WORKER_AGENT_PROCESSES_ZYGOTE_H

#include "base/loop/loop.h"
#include "protocol/span.h"
#include "worker/agent/processes/worker.h"

/* The zygote of this Python, started when there is none. NULL: *err says why. */
struct worker *zygote_get(struct agent *a, const char *python, struct err *err);
/* Tells it to make w, whose ends these are; they are taken, also on failure. `start`: for this rank
 * alone. */
MUST_USE int zygote_order(struct worker *zygote, struct worker *w, struct worker_ends *ends,
                          const struct span *start, struct err *err);
/* Fork all that were ordered. */
MUST_USE int zygote_go(struct worker *zygote, struct err *err);

void zygote_event(struct loop *loop, int fd, unsigned events, void *zygote);
void zygote_read(struct worker *zygote);        /* what it said: who its ranks are */
void zygote_drop_orders(struct worker *zygote); /* any worker: most have none */

#endif
