/* death_cause.h - what the agent knows of a death beyond its signal or exit status, in words for
 * the user. Pure. */
#ifndef WORKER_AGENT_PROCESSES_DEATH_CAUSE_H
#define WORKER_AGENT_PROCESSES_DEATH_CAUSE_H

#include <stdbool.h>

#include "base/buf.h"
#include "protocol/span_flags.h"

struct death {
    bool known;    /* code and status are */
    unsigned code; /* of EXITED */
    int status;    /* exit status or signal */
};

#define DEATH_UNKNOWN { false, EXITED_UNKNOWN, 0 }

enum oom_killer { OOM_NONE, OOM_CGROUP, OOM_SYSTEM };

struct death_cause {
    /* NULL: the worker itself; else who was to make it: "the process that ranks are forked from" */
    const char *who;
    const char *python; /* what it was started with */
    const char *node;   /* the host, where that is not the notebook's; NULL: it is */
    bool ready;         /* it had said READY */
    struct death death;
    bool ours;           /* the agent sent the signal */
    enum oom_killer oom; /* who ran out of memory meanwhile */
    struct slice said;   /* its last lines on stderr */
    const char *broke;   /* what it did that the protocol forbids; NULL: nothing */
};

/* Appends what follows on a colon ("rank 3 did not come up: "), or nothing when there is nothing to
 * add. -1: memory is out. */
MUST_USE int death_cause_text(const struct death_cause *c, struct buf *out);

#endif
