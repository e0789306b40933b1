/* SPDX-License-Identifier: BSD-3-Clause */
/* double.h - the kernel's end of an agent's connection, for tests: a unix socket, and all messages
 * that came as one text. */
#ifndef TESTS_UNIT_AGENT_DOUBLE_H
#define TESTS_UNIT_AGENT_DOUBLE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "protocol/span.h"

struct kernel {
    int listening, fd;
    char dir[64];
    pid_t agent;
    int in; /* the agent's stdin */
    uint64_t window;
    struct buf bytes;  /* that came, behind the last bundle */
    struct buf bundle; /* the last one that came, and how much of it was taken */
    size_t taken;
    struct buf msg; /* the last message, which `last` borrows from */
    struct span last;
    /* what came: "1<text>" LINES of stdout, "2<…>" of stderr, "~" before flagged ones, and kinds */
    struct buf story;
    size_t lines_size; /* bytes of LINES' data */
};

/* Starts an agent; self: the program that is its python; home: with a home. Waits for HELLO and
 * says WELCOME. */
void kernel_start(struct kernel *k, const char *self, bool home, uint64_t window);
/* Ends it by the end of its stdin; its exit status, or -1 when it doesn't end within a minute. */
int kernel_end(struct kernel *k);
int kernel_wait(struct kernel *k); /* only waits and releases */

void kernel_send(struct kernel *k, const uint32_t *workers, size_t n, const struct span *m);
void kernel_say(struct kernel *k, uint32_t worker, enum span_kind kind); /* no fields */
/* REQUEST or RUN */
void kernel_run(struct kernel *k, uint32_t worker, uint64_t cell, const char *script);
/* Starts ranks 0 to n-1 as workers 2 to n+1, and waits until all are ready. */
void kernel_ranks(struct kernel *k, const char *self, unsigned n);
void kernel_start_ranks(struct kernel *k, const char *python, unsigned n, const char *env);

/* Takes messages until one of this kind from this worker (0: any) is there; false after a
 * minute. */
bool kernel_until(struct kernel *k, enum span_kind kind, uint32_t worker);
/* The same; false after ms. */
bool kernel_within(struct kernel *k, enum span_kind kind, uint32_t worker, int ms);
/* Takes what comes within ms. */
void kernel_listen(struct kernel *k, int ms);
bool kernel_told(const struct kernel *k, const char *text); /* is it in the story? */
void kernel_forget(struct kernel *k);                       /* the story begins anew */

#endif
