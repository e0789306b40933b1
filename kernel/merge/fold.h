/* fold.h - the lines of one stream that wait: for their twins of other ranks, or for another rank's
 * long line to end.
 *
 * Lines stand in the order in which they will leave. A rank's line joins an equal one behind the
 * last one that this rank joined or brought, so that every rank's lines keep their order; or one
 * before it that is the last of all its ranks: that one moves to the end then. So "loss 0.3",
 * "epoch 1" of one rank and "loss 0.4", "epoch 1" of another end in one "epoch 1". The first line
 * is settled when nobody can join it any more. */
#ifndef KERNEL_MERGE_FOLD_H
#define KERNEL_MERGE_FOLD_H

#include <stdbool.h>

#include "base/err.h"
#include "base/ranks.h"

#define LINE_OPEN  1u /* no newline at its end (yet) */
#define LINE_CONT  2u /* goes on where a LINE_OPEN of the same ranks ended */
#define LINE_FRAME 4u /* several lines that stay together, with newlines between them */
#define LINE_BARE  8u /* colours alone: no label, no newline */

struct line {
    struct line *next, *prev;
    struct line *twin; /* the next of the same bucket */
    uint64_t seq;
    uint64_t hash;
    uint64_t due_ns; /* leaves then at the latest */
    size_t n;        /* bytes of text */
    unsigned flags;
    unsigned words;
    uint64_t who[]; /* the ranks, as struct ranks has them; the text follows */
};

static inline struct slice line_text(const struct line *l)
{
    return slice_of(l->who + l->words, l->n);
}

struct fold;

/* living: who has to get past a line for it to be settled (copied). twins: equal lines of different
 * ranks are one. */
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
