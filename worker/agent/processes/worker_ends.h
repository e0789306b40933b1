/* worker_ends.h - the socket and the pipes between the agent and a worker: of each, the agent has
 * one end and the worker the other. */
#ifndef WORKER_AGENT_PROCESSES_WORKER_ENDS_H
#define WORKER_AGENT_PROCESSES_WORKER_ENDS_H

#include "base/err.h"

struct worker_ends {
    int link; /* the socket for messages */
    int out, errs, stack;
};

#define WORKER_ENDS_INIT { -1, -1, -1, -1 }

/* The agent's ends are the reading ones, and nonblocking. The worker's ends stay blocking: a full
 * pipe slows the worker down. -1: *err says why, and what was opened is closed. */
MUST_USE int worker_ends_open(struct worker_ends *ours, struct worker_ends *theirs,
                              struct err *err);
void worker_ends_close(struct worker_ends *e);

#endif
