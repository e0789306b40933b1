/* zygote.h - ranks are forked from a zygote: a Python that has imported already. README.md says
 * what it is told. */
#ifndef WORKER_AGENT_PROCESSES_ZYGOTE_H
#define WORKER_AGENT_PROCESSES_ZYGOTE_H

#include "protocol/span.h"
#include "worker/agent/processes/worker.h"

struct worker *zygote_find(const struct workers *all, const char *python); /* NULL: there is none */
/* Tells it to make w, whose ends these are; they are taken, also on failure. `start`: for this rank
 * alone. */
MUST_USE int zygote_order(struct worker *zygote, struct worker *w, struct worker_ends *ends,
                          const struct span *start, struct err *err);
/* Forks all ranks that were ordered. */
MUST_USE int zygote_fork(struct worker *zygote, struct err *err);

void zygote_event(void *zygote, int fd, unsigned events);
void zygote_read(struct worker *zygote); /* reads which processes its ranks are */

#endif
