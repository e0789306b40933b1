/* SPDX-License-Identifier: BSD-3-Clause */
/* death_cause.h - what the agent knows about a death beyond its signal or exit status, as text for
 * the user. Pure. */
#ifndef WORKER_AGENT_PROCESSES_DEATH_CAUSE_H
#define WORKER_AGENT_PROCESSES_DEATH_CAUSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/slice.h"
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

/* ---- oom.c ---- */
/* Has an out-of-memory killer been active? Reads the counters of the cgroup (v2 and v1) and of the
 * whole system. */

#define OOM_PATH_MAX 4096

struct oom {
    char cgroup[OOM_PATH_MAX]; /* the file with the cgroup's counter; "": there is none */
    uint64_t cgroup_kills;
    uint64_t system_kills;
};

void oom_init(struct oom *o); /* finds the counters and reads them */
enum oom_killer
oom_check(struct oom *o); /* which of the two killed a process since the last call */

/* The path of the memory cgroup in the text of /proc/self/cgroup; empty: there is none. *v2: is it
 * version 2? Pure. */
struct slice oom_cgroup(struct slice text, bool *v2);

#endif
