/* merge.h - lines of many ranks in, text blocks for the client out. Pure: time comes from `clock`.
 *
 * A line is never torn, nor is a table or panel that is drawn with lines; one rank's lines keep
 * their order, stdout and stderr stay apart. No bytes are lost but a terminal's modes, such as the
 * hidden cursor, of those who draw on one.
 *   fold    a line that several ranks print alike is shown once, "[0-3] epoch 1"; it waits at most
 *           100 ms for its twins
 *   prefix  "[2] text"
 *   rank0   rank 0's only, unlabelled
 *   raw     every rank's, unlabelled
 * A world of one rank is not labelled in any mode. */
#ifndef KERNEL_MERGE_MERGE_H
#define KERNEL_MERGE_MERGE_H

#include "base/clock.h"
#include "base/ranks.h"
#include "magics/plan.h"

struct merge;

/* stream 1: stdout, 2: stderr. text: whole lines, valid UTF-8, borrowed for the call. -1 is handed
 * through. */
struct merge_out {
    int (*text)(void *arg, unsigned stream, struct slice text);
    /* The states of the progress bars of all ranks, as lines: shown in place of what was shown
     * last. `done`: this is how they stay. */
    int (*progress)(void *arg, struct slice text, bool done);
    void *arg;
};

#define MERGE_WITHIN_LINE 1u /* flags of LINES in protocol/README.md */
#define MERGE_PROGRESS    2u

/* world: the ranks that run the cell (copied): a line that all of them printed has all its twins.
 * NULL: *err says why. */
struct merge *merge_create(enum plan_merge mode, const struct ranks *world,
                           const struct clock *clock, struct merge_out out, struct err *err);
void merge_destroy(struct merge *m);

/* Bytes of one rank's stream, as LINES brings them; invalid UTF-8 is shown replaced. */
MUST_USE int merge_lines(struct merge *m, unsigned rank, unsigned stream, unsigned flags,
                         struct slice data, struct err *err);
/* This rank prints nothing more (it is done or dead): nobody waits for it. */
MUST_USE int merge_rank_over(struct merge *m, unsigned rank, struct err *err);
/* Puts out what has waited long enough; call when merge_due_ns() has come. */
MUST_USE int merge_tick(struct merge *m, struct err *err);
/* Puts out everything of this rank (before its display is shown). */
MUST_USE int merge_flush_rank(struct merge *m, unsigned rank, struct err *err);
/* Puts out everything (the cell is over); progress bars are shown as they ended. */
MUST_USE int merge_flush(struct merge *m, struct err *err);
uint64_t merge_due_ns(const struct merge *m); /* UINT64_MAX: nothing waits */
size_t merge_waiting(const struct merge *m);  /* bytes that wait within */

#endif
