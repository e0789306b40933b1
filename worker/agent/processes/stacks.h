/* stacks.h - the stacks that a worker writes to its pipe for them: when asked by a signal, and when
 * it crashes. */
#ifndef WORKER_AGENT_PROCESSES_STACKS_H
#define WORKER_AGENT_PROCESSES_STACKS_H

#include <stdint.h>

#include "base/loop/loop.h"
#include "base/slice.h"

struct worker;

/* Asks for the stacks of every thread, also when the worker's Python is stuck; STACK answers, with
 * `cell`. */
void stacks_ask(struct worker *w, uint64_t cell);
void stacks_event(struct loop *loop, int fd, unsigned events, void *worker);
/* Takes what a dead worker left; a question that waits is answered with it. */
void stacks_rest(struct worker *w);

#endif
