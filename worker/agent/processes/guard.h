/* guard.h - a process above the agent, on machines where no kernel is: when the agent is killed, it
 * becomes the parent of what the agent's workers have left (their children, daemons), and ends
 * it. */
#ifndef WORKER_AGENT_PROCESSES_GUARD_H
#define WORKER_AGENT_PROCESSES_GUARD_H

#include "base/err.h"
#include "protocol/keys.h"

/* 0: go on as the agent. 1: this is the guard, and it is over: *status is what main returns. -1:
 * *err says why there is none. To be called before there are threads. The keys are the agent's
 * alone: the guard wipes its copy. */
MUST_USE int guard_start(int argc, char **argv, const char *node, struct keys *keys, int *status,
                         struct err *err);

#endif
