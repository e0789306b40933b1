/* stacks.h - reads the stacks that a worker writes to a pipe of their own: when it is asked by a
 * signal, and when it crashes. */
#ifndef WORKER_AGENT_PROCESSES_STACKS_H
#define WORKER_AGENT_PROCESSES_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/loop/loop.h"

#define STACKS_MAX 262144u /* bytes of stacks that are kept: EXITED's and STACK's limit */

struct nccl_status;
struct worker;

/* The state for one worker. */
struct stacks {
    int fd; /* -1: ended */
    struct watch *watch;
    struct buf text;
    bool asked;               /* STACKS waits for an answer */
    bool over;                /* the stacks are complete; NCCL's answer may be missing */
    struct nccl_status *nccl; /* owned: the question to NCCL; NULL: none */
    uint64_t cell;            /* of the question */
    uint64_t limit_ns;
    struct watch *timer;
};

void stacks_close(struct stacks *s); /* nothing is read any more */
void stacks_release(struct stacks *s);

/* Asks for the stacks of all threads, even if the worker's Python is stuck. STACK is the answer,
 * with `cell`. */
void stacks_ask(struct worker *w, uint64_t cell);
void stacks_event(void *worker, int fd, unsigned events);
/* Reads what a dead worker has left, and answers a question that still waits. */
void stacks_rest(struct worker *w);

#endif
