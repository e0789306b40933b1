/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - the agent's parent process, on machines without a kernel. When the agent is killed, the
 * guard becomes the parent of the remaining processes (children and daemons of workers), and ends
 * them. */
#ifndef WORKER_AGENT_PROCESSES_GUARD_H
#define WORKER_AGENT_PROCESSES_GUARD_H

#include <stdbool.h>

#include "base/err.h"
#include "protocol/keys.h"

/* alone: the agent outlives the process that has started it. Returns 0 in the agent, which goes on.
 * Returns 1 in the guard, once the agent has ended: main returns *status. -1: *err says why there
 * is no guard. Call it before there are threads. Only the agent keeps the keys: the guard wipes its
 * copy. */
MUST_USE int guard_start(int argc, char **argv, const char *node, bool alone, struct keys *keys,
                         int *status, struct err *err);

#endif
