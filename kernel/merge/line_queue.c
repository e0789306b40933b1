/* SPDX-License-Identifier: BSD-3-Clause */
/* line_queue.c - takes the text of one stream of all ranks, and decides in which order, and when,
 * its lines are shown (declared in private.h). */
#include "kernel/merge/private.h"

#include <stdlib.h>

#define COST_MAX ((size_t)4 << 20) /* bytes of waiting lines; above that the oldest leave */
#define HELD_MAX ((size_t)1 << 20) /* the same while they wait for another rank's long line */
/* a line whose time is up takes along those due so soon after it, so that runs stay together */
#define TOGETHER_NS (10 * NS_PER_MS)
#define LOOKAHEAD   256u /* lines to search for more lines of the same ranks */

int line_queue_init(struct line_queue *q, unsigned stream, const struct ranks *living, bool joins,
                    struct show *show)
{
    *q = (struct line_queue){
        .stream = stream, .joins = joins, .words = living->words, .show = show
    };
    q->fold = fold_create(living, joins);
    q->one = calloc(living->words + 1, sizeof *q->one);
    return q->fold && q->one ? 0 : -1;
}

void line_queue_release(struct line_queue *q)
{
    fold_destroy(q->fold);
    free(q->one);
    q->fold = NULL;
    q->one = NULL;
}

/* Until when lines must wait for the end of another rank's long line; 0: they need not. */
static uint64_t held_ns(const struct line_queue *q)
{
    return fold_cost(q->fold) < HELD_MAX ? show_held_ns(q->show, q->stream) : 0;
}

uint64_t line_queue_due_ns(const struct line_queue *q)
{
    const struct line *head = fold_head(q->fold);
    const uint64_t held = held_ns(q);

    if (!head)
        return UINT64_MAX;
    return head->due_ns > held ? head->due_ns : held;
}

static bool overlap(const struct line *a, const struct line *b)
{
    for (unsigned i = 0; i < a->words; i++)
        if (a->who[i] & b->who[i])
            return true;
    return false;
}

static bool same_ranks(const struct line *a, const struct line *b)
{
    return memcmp(a->who, b->who, a->words * sizeof a->who[0]) == 0;
}

static unsigned stream_of(const struct line_queue *q, unsigned flags)
{
    return flags & LINE_ERR ? 2 : q->stream;
}

static int show_one(struct line_queue *q, const struct line *line, uint64_t now)
{
    return show_line(q->show, stream_of(q, line->flags), line->who, line_text(line), line->flags,
                     now);
}

/* Shows the first line of the batch and then, right after it, later lines of the same ranks. A line
 * may overtake only lines with which it shares no rank. */
static int show_run(struct line_queue *q, struct line **batch, uint64_t now)
{
    struct line *first = *batch;
    unsigned passed = 0;
    int rc = show_one(q, first, now);

    *batch = first->next;
    for (struct line **at = batch; rc == 0 && *at && passed < LOOKAHEAD;) {
        struct line *line = *at;

        if (same_ranks(line, first)) {
            *at = line->next;
            rc = show_one(q, line, now);
            free(line);
        } else if (overlap(line, first)) {
            break;
        } else {
            at = &line->next;
            passed++;
        }
    }
    free(first);
    return rc;
}

/* Always frees the batch. */
static int show_batch(struct line_queue *q, struct line *batch, uint64_t now)
{
    int rc = 0;

    while (batch && rc == 0)
        rc = show_run(q, &batch, now);
    while (batch) {
        struct line *next = batch->next;

        free(batch);
        batch = next;
    }
    return rc;
}

/* May the first line leave? *due_ns: lines count as due up to this time; grows when one is due. */
static bool head_leaves(const struct line_queue *q, enum line_queue_drain which, unsigned rank,
                        uint64_t now, uint64_t *due_ns)
{
    const struct line *head = fold_head(q->fold);

    if (!head || which == DRAIN_ALL)
        return head != NULL;
    if (which == DRAIN_RANK)
        return fold_has(q->fold, rank);
    if (held_ns(q) > now)
        return false;
    if (head->due_ns <= now)
        *due_ns = now + TOGETHER_NS;
    return fold_settled(q->fold) || head->due_ns <= *due_ns || fold_cost(q->fold) > COST_MAX;
}

/* An unfinished line ends a batch, since the lines after it may have to wait for its end. */
int line_queue_drain(struct line_queue *q, enum line_queue_drain which, unsigned rank, uint64_t now)
{
    struct line *batch = NULL;
    struct line **end = &batch;
    uint64_t due_ns = now;

    while (head_leaves(q, which, rank, now, &due_ns)) {
        struct line *line = fold_take(q->fold);

        *end = line;
        end = &line->next;
        if (line->flags & LINE_OPEN) {
            if (show_batch(q, batch, now) < 0)
                return -1;
            batch = NULL;
            end = &batch;
        }
    }
    return show_batch(q, batch, now);
}

/* May a line of this rank be shown at once? It may if it continues the unfinished line on the
 * screen, or if there is nothing to wait for. */
static bool goes_at_once(const struct line_queue *q, unsigned rank, unsigned flags, uint64_t now)
{
    if (flags & LINE_CONT && show_is_open(q->show, q->stream, rank))
        return !fold_has(q->fold, rank);
    return !q->joins && !fold_head(q->fold) && held_ns(q) <= now;
}

int line_queue_put(struct line_queue *q, unsigned rank, struct slice text, unsigned flags,
                   uint64_t due_ns, uint64_t now)
{
    int rc;

    if (!goes_at_once(q, rank, flags, now)) {
        if (fold_add(q->fold, rank, text, flags, due_ns) < 0)
            return -1;
        return fold_cost(q->fold) > COST_MAX ? line_queue_drain(q, DRAIN_DUE, 0, now) : 0;
    }
    q->one[rank / 64] |= UINT64_C(1) << rank % 64;
    rc = show_line(q->show, stream_of(q, flags), q->one, text, flags, now);
    q->one[rank / 64] = 0;
    return rc;
}
