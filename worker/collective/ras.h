/* ras.h - NCCL's own view of a job: since 2.24 its RAS threads (reliability, availability,
 * serviceability) know of every rank how many operations it has launched in each communicator, also
 * when the rank's Python hangs. One process of each node answers in text at a port of the loopback,
 * 28028 unless $NCCL_RAS_ADDR says otherwise.
 *
 * What NCCL counts is what was launched, not what has ended: a rank that is behind has not come to
 * the collective that the others wait in. */
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

/* Ranks of a communicator that are equally far. */
struct ras_count {
    char comm[64];      /* "#0-0 (27a079b828ff1a75)" */
    char operation[32]; /* "AllReduce"; empty where NCCL counts all operations together */
    unsigned ranks;     /* how many they are */
    uint64_t launched;  /* operations; 0: none */
    /* their ranks in that communicator, "0,2,5"; empty where NCCL names none (the majority) */
    struct buf who;
};

struct ras_status {
    struct ras_count *count;
    size_t n;
    struct buf troubles; /* a line each: processes that are dead or do not answer */
    bool running;        /* there was a table of communicators */
};

void ras_status_release(struct ras_status *s); /* leaves an empty one */
/* What RAS answered to VERBOSE STATUS, in parts. What it does not know it passes over: NCCL changes
 * its words. -1: out of memory; *s is then empty. */
MUST_USE int ras_parse(struct slice text, struct ras_status *s, struct err *err);
/* For people, a line each: "NCCL #0-0 (…): 7 ranks launched 64 AllReduce; rank 7 launched 60
 * AllReduce", or that all are equally far. Nothing where RAS knows of no communicator. */
MUST_USE int ras_words(const struct ras_status *s, struct buf *out);

/* Asks at `address` ("host:port"; NULL: $NCCL_RAS_ADDR, else RAS_ADDRESS) and adds the whole answer
 * to `out`. Waits `timeout_ms` at most, so not from an event loop: from a thread or a child of its
 * own; an answer that has not ended by then is taken as far as it came. -1: nobody there, in
 * words. */
MUST_USE int ras_ask(const char *address, unsigned timeout_ms, struct buf *out, struct err *err);

/* The same from an event loop: a thread asks, and writes ras_words into a pipe (the reason where
 * nobody answers is left out: most jobs have no RAS). Nobody is asked where process `pid` has not
 * loaded NCCL (0: that does not count); the thread finds that out, for whoever looks at what a
 * process has mapped may have to wait for it, and for ever when that hangs in a driver. Else the
 * pipe's read end, the caller's to close, ends within timeout_ms. -1: *err says why. */
int ras_begin(const char *address, long pid, unsigned timeout_ms, struct err *err);

#endif
