/* reap.h - how workers died, and the end of all of them.
 *
 * Every worker is a child of the agent, also those that a zygote forked (the agent adopts orphans).
 * So SIGCHLD and waitid() tell every death and its status. */
#ifndef WORKER_AGENT_REAP_H
#define WORKER_AGENT_REAP_H

#include "base/err.h"

struct agent;

/* From now on it notices deaths, and ends that are overdue. */
MUST_USE int reap_start(struct agent *a, struct err *err);
/* EXITED for a worker that could not be started at all. */
void reap_never_started(struct agent *a, unsigned id, const char *why);
/* Kills every worker with its process group, then every process that became our child, and waits
 * until none is left, 5 seconds at most. */
void reap_everybody(struct agent *a);

#endif
