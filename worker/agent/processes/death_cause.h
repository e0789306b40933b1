/* SPDX-License-Identifier: BSD-3-Clause */
/* death_cause.h - what the agent knows about a death beyond its signal or exit status, as text for
 * the user. Pure. */
#ifndef WORKER_AGENT_PROCESSES_DEATH_CAUSE_H
#define WORKER_AGENT_PROCESSES_DEATH_CAUSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/memory_limit.h"
#include "base/slice.h"
#include "protocol/span_flags.h"

struct death {
    bool known;    /* code and status are known */
    unsigned code; /* of EXITED */
    int status;    /* exit status or signal */
};

#define DEATH_UNKNOWN { false, EXITED_UNKNOWN, 0 }

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

/* Children that ended and are not known as workers. They are kept for a while, because a rank may
 * die before it is known which process it is. */

#define STRAYS_MAX 64u

struct strays {
    pid_t pid[STRAYS_MAX];
    struct death death[STRAYS_MAX];
    unsigned next; /* the oldest is overwritten */
};

void strays_add(struct strays *s, pid_t pid, const struct death *d);
const struct death *strays_find(const struct strays *s, pid_t pid); /* NULL: not among them */

#endif
