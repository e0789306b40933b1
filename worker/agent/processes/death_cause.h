/* death_cause.h - what the agent knows about a death beyond its signal or exit status, as text for
 * the user. Pure. */
#ifndef WORKER_AGENT_PROCESSES_DEATH_CAUSE_H
#define WORKER_AGENT_PROCESSES_DEATH_CAUSE_H

#include <stdbool.h>

#include "base/buf.h"
#include "protocol/span_flags.h"

struct death {
    bool known;    /* code and status are known */
    unsigned code; /* of EXITED */
    int status;    /* exit status or signal */
};

#define DEATH_UNKNOWN { false, EXITED_UNKNOWN, 0 }

enum oom_killer { OOM_NONE, OOM_CGROUP, OOM_SYSTEM };

struct death_cause {
    /* NULL: the worker itself; else the process that was to make it: "the process that ranks are
     * forked from" */
    const char *who;
    const char *python; /* the Python that it ran */
    const char *node;   /* the host; NULL: the notebook's machine */
    bool ready;         /* it had sent READY */
    struct death death;
    bool ours;           /* the agent sent the signal */
    enum oom_killer oom; /* which out-of-memory killer has been active meanwhile */
    struct slice said;   /* its last lines on stderr */
    const char *broke;   /* what it did against the protocol; NULL: nothing */
};

/* Appends the text that follows a colon ("rank 3 did not come up: "), or nothing if nothing more is
 * known. -1: memory is out. */
MUST_USE int death_cause_text(const struct death_cause *c, struct buf *out);

#endif
