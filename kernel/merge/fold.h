/* fold.h - the waiting lines of one stream. A line waits for its twins (equal lines of other
 * ranks), or for the end of another rank's long line.
 *
 * The list has the order in which lines will leave. A rank's new line joins an equal line after the
 * last line of this rank, so that each rank's lines keep their order. Or it joins an earlier equal
 * line that is the last one of all its ranks; that line then moves to the end. For example, "loss
 * 0.3", "epoch 1" of one rank and "loss 0.4", "epoch 1" of another become one "epoch 1" at the end.
 * The first line is settled when no rank can join it any more. */
#ifndef KERNEL_MERGE_FOLD_H
#define KERNEL_MERGE_FOLD_H

#include <stdbool.h>

#include "base/err.h"
#include "base/ranks.h"

#define LINE_OPEN  1u /* no newline at its end (yet) */
#define LINE_CONT  2u /* continues a LINE_OPEN of the same ranks */
#define LINE_FRAME 4u /* several lines that stay together, separated by newlines */
#define LINE_BARE  8u /* only colour codes: no label, no newline */

struct line {
    struct line *next, *prev;
    struct line *twin; /* the next line in the same hash bucket */
    uint64_t seq;
    uint64_t hash;
    uint64_t due_ns; /* leaves at this time at the latest */
    size_t n;        /* bytes of text */
    unsigned flags;
    unsigned words;
    uint64_t who[]; /* the bits of its ranks, as in struct ranks; then the text */
};

static inline struct slice line_text(const struct line *l)
{
    return slice_of(l->who + l->words, l->n);
}

struct fold;

/* living: the ranks that may still print; a line is settled when none of them can join it (copied).
 * twins: equal lines of different ranks become one. */
struct fold *fold_create(const struct ranks *living, bool twins);
void fold_destroy(struct fold *f);
/* rank must be below 64 times the words of `living`. -1: memory is out. */
MUST_USE int fold_add(struct fold *f, unsigned rank, struct slice text, unsigned flags,
                      uint64_t due_ns);
void fold_rank_over(struct fold *f, unsigned rank);
const struct line *fold_head(const struct fold *f); /* borrowed; NULL: nothing waits */
bool fold_settled(const struct fold *f);            /* the head has all its twins */
bool fold_has(const struct fold *f, unsigned rank); /* a line of this rank waits */
size_t fold_bytes(const struct fold *f);            /* of text */
size_t fold_cost(const struct fold *f);             /* of memory */
struct line *fold_take(struct fold *f);             /* the head, now the caller's (free()) */

#endif
