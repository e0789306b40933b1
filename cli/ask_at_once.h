/* SPDX-License-Identifier: BSD-3-Clause */
/* ask_at_once.h - many questions at once, each in a process of its own: one that gets no answer, or
 * one that another user has made to go wrong, holds up and harms no other. */
#ifndef CLI_ASK_AT_ONCE_H
#define CLI_ASK_AT_ONCE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct answer {
    /* Runs in the new process, and writes its text to fd. That process has a session of its own,
     * /dev/null as 0, 1 and 2, and no other descriptor of ours. NULL: nothing is asked. */
    void (*f)(const void *arg, int fd);
    const void *arg; /* borrowed */
    struct buf text; /* what it wrote until it ended, or until its time was over */
    bool begun;      /* false: its turn has not come */
    bool too_long;   /* it wrote more than `most`; text is its start */
};

/* How much is waited for. */
struct ask_limits {
    size_t most;       /* bytes of each answer */
    uint64_t limit_ns; /* for each answer, from its begin on */
    uint64_t begin_ns; /* nothing is begun after so long */
};

/* Fills n answers; the first are begun first. Returns within begin_ns + limit_ns and two seconds,
 * whatever the processes do: one that the system can't end at once is left. -1: memory is out, or
 * no process can be started. The caller releases the texts in any case. */
MUST_USE int ask_at_once(struct answer *of, size_t n, const struct ask_limits *p, struct err *err);

#endif
