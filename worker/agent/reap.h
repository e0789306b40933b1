/* reap.h - who died, of what, and the end of everybody.
 *
 * Every worker is a child of the agent, also those that a zygote forked (the agent adopts orphans),
 * so SIGCHLD and waitid() tell all deaths and their statuses. A child that is no worker's main
 * process is a stray; the last of them are kept for a while, because a rank may die before it is
 * known which process it is. */
#ifndef WORKER_AGENT_REAP_H
#define WORKER_AGENT_REAP_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "worker/agent/processes/death_cause.h"

#define STRAYS_MAX 64u

struct agent;
struct worker;

struct stray {
    pid_t pid;
    enum death_code code;
    int status;
};

struct strays {
    struct stray stray[STRAYS_MAX];
    unsigned next; /* the oldest is overwritten */
};

MUST_USE int reap_start(struct agent *a, struct err *err);
void reap_children(struct agent *a);

/* The worker's socket is closed, or it was killed: it should be dead soon. If not, it is made so,
 * and EXITED is sent. */
void reap_expect(struct worker *w);
/* Closes its socket, and expects that. */
void reap_unlink(struct worker *w);
/* Its pid has just become known: perhaps it has died already. */
void reap_known(struct worker *w);
/* May this process be a rank of ours that nobody has announced? */
bool reap_may_be(const struct agent *a, pid_t pid);

/* EXITED for a worker that could not be started at all. */
void reap_never_started(struct agent *a, unsigned id, const char *why);

/* Kills every worker with its process group, then every process that became our child, and waits
 * until none is left, 5 seconds at most. */
void reap_everybody(struct agent *a);

#endif
