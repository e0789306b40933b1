/* SPDX-License-Identifier: BSD-3-Clause */
/* lines.h - turns the bytes of one stream into whole lines. Pure: time is a number that the
 * caller gives.
 *
 * Whole lines leave at once, as many as came together. An unfinished line waits for its newline a
 * while; a progress bar (states of one line, each ended or begun by a carriage return, or ended by
 * a step up) leaves at most once in LINES_PROGRESS_NS; what is longer than LINE_BYTES_MAX leaves in
 * pieces. No byte is lost or changes its place.
 *
 * This is for the output of ranks, which users see as it is. The launchers and the kernel read
 * their children's output with base/child_lines.h, which drops what is not text. */
#ifndef WORKER_AGENT_OUTPUT_LINES_H
#define WORKER_AGENT_OUTPUT_LINES_H

#include "base/buf.h"
#include "base/clock.h"
#include "protocol/span_flags.h"

/* how long an unfinished line waits for more bytes: longer than a busy machine pauses */
#define LINES_HOLD_NS     (400 * NS_PER_MS)
#define LINES_WAIT_NS     NS_PER_S /* and how long in all, while bytes keep coming */
#define LINES_PROGRESS_NS (100 * NS_PER_MS)
#define LINE_BYTES_MAX    262144u /* bytes of an unfinished line that are held */

/* data is borrowed for the call and never empty. -1 is handed through. */
typedef int (*lines_out_f)(void *arg, struct slice data, unsigned flags);

struct lines {
    struct buf held;      /* an unfinished line, or what is left of it */
    size_t states;        /* how many of the held bytes are complete states of a progress bar */
    uint64_t since_ns;    /* when the first held byte came */
    uint64_t touched_ns;  /* when the last held byte came */
    uint64_t progress_ns; /* when states were last put out; 0: never */
    lines_out_f out;
    void *arg;
};

#define LINES_INIT(f, a) { BUF_INIT, 0, 0, 0, 0, (f), (a) }

void lines_release(struct lines *l);
/* Takes bytes as they were read. -1: memory is out, or out() failed; bytes that were not put out
 * are still held. */
MUST_USE int lines_feed(struct lines *l, struct slice data, uint64_t now_ns);
/* Puts out what has waited long enough. */
MUST_USE int lines_tick(struct lines *l, uint64_t now_ns);
/* More bytes wait in the pipe, unread because the client is slow: restarts the waiting time of the
 * held bytes. */
void lines_wait(struct lines *l, uint64_t now_ns);
/* Puts out everything, before a message of the worker, or at its end. */
MUST_USE int lines_flush(struct lines *l);
/* When to call lines_tick; UINT64_MAX: nothing waits. */
uint64_t lines_due_ns(const struct lines *l);

#endif
