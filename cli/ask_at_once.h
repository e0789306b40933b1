/* SPDX-License-Identifier: BSD-3-Clause */
/* ask_at_once.h - many questions at once, each in a process of its own: one that gets no answer, or
 * one that another user has made to go wrong, holds up and harms no other. */
#ifndef CLI_ASK_AT_ONCE_H
#define CLI_ASK_AT_ONCE_H

#include "base/buf.h"
#include "base/err.h"

struct answer {
    void (*f)(const void *arg, int fd); /* runs in the new process, and writes its text to fd */
    const void *arg;                    /* borrowed */
    struct buf text; /* what it wrote until it ended, or until its time was over */
};

/* Fills the texts of n answers; each has at most `most` bytes, and comes within limit_ns. -1:
 * memory is out, or no process can be started. The caller releases the texts in any case. */
MUST_USE int ask_at_once(struct answer *of, size_t n, size_t most, uint64_t limit_ns,
                         struct err *err);

#endif
