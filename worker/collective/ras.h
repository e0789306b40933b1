/* SPDX-License-Identifier: BSD-3-Clause */
/* ras.h - asks NCCL's RAS (reliability, availability, serviceability; since 2.24) about a job. Its
 * threads know how many operations each rank has launched in each communicator, even while the
 * rank's Python hangs. One process of each node answers as text at a loopback port, 28028 unless
 * $NCCL_RAS_ADDR sets another.
 *
 * NCCL counts launched operations, not finished ones. A rank with a lower count has not yet reached
 * the collective in which the others wait. */
#ifndef WORKER_COLLECTIVE_RAS_H
#define WORKER_COLLECTIVE_RAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define RAS_ADDRESS    "localhost:28028"
#define RAS_ANSWER_MAX (1u << 20) /* bytes that are read */

/* Ranks of a communicator that have launched the same number of operations. */
struct ras_count {
    char comm[64];      /* "#0-0 (27a079b828ff1a75)" */
    char operation[32]; /* "AllReduce"; empty if NCCL counts all operations together */
    unsigned ranks;     /* number of these ranks */
    uint64_t launched;  /* operations */
    /* their ranks in that communicator, "0,2,5"; empty for the majority, not listed by NCCL */
    struct buf who;
};

struct ras_status {
    struct ras_count *count;
    size_t n;
    struct buf troubles; /* one line for each process that is dead or does not answer */
    bool running;        /* there was a table of communicators */
};

void ras_status_release(struct ras_status *s); /* leaves an empty one */
/* Parses RAS's answer to VERBOSE STATUS. Skips lines that it does not know, since NCCL changes its
 * wording. -1: out of memory; then *s is empty. */
MUST_USE int ras_parse(struct slice text, struct ras_status *s, struct err *err);
/* Appends lines for the user: "NCCL #0-0 (…): 7 ranks launched 64 AllReduce; rank 7 launched 60
 * AllReduce", or that all have launched as many. Nothing if RAS knows no communicator. */
MUST_USE int ras_words(const struct ras_status *s, struct buf *out);

/* Asks at `address` ("host:port"; NULL: $NCCL_RAS_ADDR, else RAS_ADDRESS) and appends the answer to
 * `out`. Blocks up to `timeout_ms`, so don't call it from an event loop. If the answer is not
 * complete by then, it keeps what has come. -1: *err says why there is no answer. */
MUST_USE int ras_ask(const char *address, unsigned timeout_ms, struct buf *out, struct err *err);

/* The same for an event loop. Returns the read end of a pipe, which the caller must close. A thread
 * asks and writes the text of ras_words to it. It writes nothing if nobody answers (most jobs have
 * no RAS), or if process `pid` has not loaded NCCL (pid 0: don't check). The pipe normally ends
 * within timeout_ms. But the check of `pid` may block forever if that process hangs in a driver;
 * that is why the thread makes it. -1: *err says why. */
int ras_begin(const char *address, long pid, unsigned timeout_ms, struct err *err);

#endif
