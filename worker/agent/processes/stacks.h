/* SPDX-License-Identifier: BSD-3-Clause */
/* stacks.h - reads the stacks that a worker writes to a pipe of their own: when it is asked for
 * them, and when it crashes. */
#ifndef WORKER_AGENT_PROCESSES_STACKS_H
#define WORKER_AGENT_PROCESSES_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/loop/loop.h"

struct nccl_status;
struct worker;

#define STACKS_MAX 262144u /* bytes of stacks that are kept: EXITED's and STACK's limit */

/* The state for one worker. */
struct stacks {
    int fd; /* -1: ended */
    struct watch *watch;
    struct buf text;
    bool asked;               /* STACKS waits for an answer */
    bool signalled;           /* the worker did not answer the message */
    bool over;                /* the stacks are complete; NCCL's answer may be missing */
    struct nccl_status *nccl; /* owned: the question to NCCL; NULL: none */
    uint64_t cell;            /* of the question */
    uint64_t limit_ns;
    uint64_t read_ns; /* when text came last */
    struct watch *timer;
};

void stacks_close(struct stacks *s); /* nothing is read any more */
void stacks_release(struct stacks *s);

/* Gets the stacks of all threads, even if the worker's Python is stuck. STACK is the answer, with
 * `cell`. Returns the `until` of the STACKS that the caller sends to the worker (see
 * worker/link/stacks.h); 0: it sends none. */
uint64_t stacks_ask(struct worker *w, uint64_t cell);
void stacks_event(void *worker, int fd, unsigned events);
/* Reads what a dead worker has left, and answers a question that still waits. */
void stacks_rest(struct worker *w);

/* ---- nccl_status.c: asks NCCL for its status when a worker's stacks are asked for ---- */
/* The port where NCCL of this agent's ranks answers. */
struct nccl_port {
    char address[32]; /* "localhost:PORT"; "": the user chose another, or none is known yet */
    uint64_t cell;    /* the cell of the STACKS for which it was asked last */
    int reserved;     /* owned: its port's reservation (net/port.h); -1: none */
};

/* The address, chosen at the first call. By default all processes of a host would use the same
 * port, and only the first of them could answer. "": the user chose another, or no port is free. */
const char *nccl_status_address(struct nccl_port *port);

/* Asks NCCL's RAS, if the worker has loaded NCCL. Each node has a RAS, and it knows the whole job.
 * f is called when it has answered or the time is over. NULL: NCCL is not loaded, or can't be
 * asked. */
struct nccl_status *nccl_status_ask(struct worker *w, void (*f)(struct worker *w));
bool nccl_status_waits(const struct nccl_status *n); /* n may be NULL */
/* Adds the line NCCL_STATUS_SAYS and the lines of the answer; nothing if there is no answer. */
#define NCCL_STATUS_SAYS "NCCL says:"
MUST_USE int nccl_status_text(const struct nccl_status *n, struct buf *out);
void nccl_status_end(struct nccl_status *n); /* NULL is fine; f is not called any more */

#endif
