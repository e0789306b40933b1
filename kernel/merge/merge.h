/* SPDX-License-Identifier: BSD-3-Clause */
/* merge.h - merges the output of many ranks into blocks of text for the client. Pure: time comes
 * from `clock`.
 *
 * Lines are never mixed, nor are tables and panels that are drawn with lines. One rank's lines keep
 * their order; stdout and stderr stay separate. No bytes are lost, except escape sequences that set
 * a terminal's modes, such as hiding the cursor.
 *   fold    a line that several ranks print is shown once, "[0-3] epoch 1"; it waits at most 100 ms
 *           for the other ranks
 *   prefix  "[2] text"
 *   rank0   only rank 0's lines, without label
 *   raw     every rank's lines, without label
 *   panel   as raw, also for one rank: its progress bars are drawn here, for a tab (panel.h)
 * A world of one rank has no labels, unless `shared` is set. */
#ifndef KERNEL_MERGE_MERGE_H
#define KERNEL_MERGE_MERGE_H

#include "base/clock.h"
#include "base/rank_set.h"
#include "magics/plan.h"
#include "protocol/span_flags.h"

struct merge;

/* stream 1: stdout, 2: stderr. text: whole lines, valid UTF-8, borrowed for the call. merge_lines
 * and the others return the -1 of a failed call. */
struct merge_out {
    int (*text)(void *arg, unsigned stream, struct slice text);
    /* The progress bars of all ranks as lines, which replace the last ones. left: some of the last
     * ones have become lines of text. */
    int (*progress)(void *arg, struct slice text, bool left);
    void *arg;
    /* The last states of bars are text of stdout, also of those that were drawn on stderr, because
     * a page colours stderr. */
    bool plain_bars;
    /* Others show lines at the same place. So lines of fold and prefix have labels also if there is
     * only one rank, and no line is shown before its end. */
    bool shared;
};

/* world: the ranks that run the cell (copied). A line that all of them have printed need not wait.
 * NULL: *err says why. */
struct merge *merge_create(enum plan_merge mode, const struct ranks *world,
                           const struct clock *clock, struct merge_out out, struct err *err);
void merge_destroy(struct merge *m);

/* Adds bytes of one rank's stream, as they come in LINES. Invalid UTF-8 is replaced. */
MUST_USE int merge_lines(struct merge *m, unsigned rank, unsigned stream, unsigned flags,
                         struct slice data, struct err *err);
/* This rank prints nothing more (it is done or dead), so no line waits for it. */
MUST_USE int merge_rank_over(struct merge *m, unsigned rank, struct err *err);
/* Shows what has waited long enough. Call it at merge_due_ns(). */
MUST_USE int merge_tick(struct merge *m, struct err *err);
/* Shows everything of this rank (before its display is shown). */
MUST_USE int merge_flush_rank(struct merge *m, unsigned rank, struct err *err);
/* Shows everything (the cell is over). Progress bars become lines. */
MUST_USE int merge_flush(struct merge *m, struct err *err);
uint64_t merge_due_ns(const struct merge *m); /* UINT64_MAX: nothing waits */
size_t merge_waiting(const struct merge *m);  /* bytes that wait in here */

#endif
