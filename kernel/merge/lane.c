#include "kernel/merge/private.h"

#include <stdlib.h>

#define COST_MAX ((size_t)4 << 20) /* bytes of waiting lines; above that the oldest leave */
#define HELD_MAX ((size_t)1 << 20) /* the same while they wait for another rank's long line */
/* a line whose time is up takes along those due so soon after it, so that runs stay together */
#define TOGETHER_NS (10 * NS_PER_MS)
#define LOOK_AHEAD  256u /* lines to search for more lines of the same ranks */

int lane_init(struct lane *l, unsigned stream, const struct ranks *living, bool twins,
              struct show *show)
{
    *l = (struct lane){ .stream = stream, .twins = twins, .words = living->words, .show = show };
    l->fold = fold_create(living, twins);
    l->one = calloc(living->words + 1, sizeof *l->one);
    return l->fold && l->one ? 0 : -1;
}

void lane_release(struct lane *l)
{
    fold_destroy(l->fold);
    free(l->one);
    l->fold = NULL;
    l->one = NULL;
}

/* Until when lines must wait for the end of another rank's long line; 0: they need not. */
static uint64_t held_ns(const struct lane *l)
{
    return fold_cost(l->fold) < HELD_MAX ? show_held_ns(l->show, l->stream) : 0;
}

uint64_t lane_due_ns(const struct lane *l)
{
    const struct line *head = fold_head(l->fold);
    const uint64_t held = held_ns(l);

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

static int show_one(struct lane *l, const struct line *line, uint64_t now)
{
    return show_line(l->show, l->stream, line->who, line_text(line), line->flags, now);
}

/* Shows the first line of the batch and then, right after it, later lines of the same ranks. A line
 * may overtake only lines with which it shares no rank. */
static int show_run(struct lane *l, struct line **batch, uint64_t now)
{
    struct line *first = *batch;
    unsigned passed = 0;
    int rc = show_one(l, first, now);

    *batch = first->next;
    for (struct line **at = batch; rc == 0 && *at && passed < LOOK_AHEAD;) {
        struct line *line = *at;

        if (same_ranks(line, first)) {
            *at = line->next;
            rc = show_one(l, line, now);
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
static int show_batch(struct lane *l, struct line *batch, uint64_t now)
{
    int rc = 0;

    while (batch && rc == 0)
        rc = show_run(l, &batch, now);
    while (batch) {
        struct line *next = batch->next;

        free(batch);
        batch = next;
    }
    return rc;
}

/* May the first line leave? *due_ns: lines count as due up to this time; grows when one is due. */
static bool head_leaves(const struct lane *l, enum lane_drain which, unsigned rank, uint64_t now,
                        uint64_t *due_ns)
{
    const struct line *head = fold_head(l->fold);

    if (!head || which == LANE_ALL)
        return head != NULL;
    if (which == LANE_RANK)
        return fold_has(l->fold, rank);
    if (held_ns(l) > now)
        return false;
    if (head->due_ns <= now)
        *due_ns = now + TOGETHER_NS;
    return fold_settled(l->fold) || head->due_ns <= *due_ns || fold_cost(l->fold) > COST_MAX;
}

/* An unfinished line ends a batch, since the lines after it may have to wait for its end. */
int lane_drain(struct lane *l, enum lane_drain which, unsigned rank, uint64_t now)
{
    struct line *batch = NULL;
    struct line **end = &batch;
    uint64_t due_ns = now;

    while (head_leaves(l, which, rank, now, &due_ns)) {
        struct line *line = fold_take(l->fold);

        *end = line;
        end = &line->next;
        if (line->flags & LINE_OPEN) {
            if (show_batch(l, batch, now) < 0)
                return -1;
            batch = NULL;
            end = &batch;
        }
    }
    return show_batch(l, batch, now);
}

/* May a line of this rank be shown at once? It may if it continues the unfinished line on the
 * screen, or if there is nothing to wait for. */
static bool goes_at_once(const struct lane *l, unsigned rank, unsigned flags, uint64_t now)
{
    if (flags & LINE_CONT && show_is_open(l->show, l->stream, rank))
        return !fold_has(l->fold, rank);
    return !l->twins && !fold_head(l->fold) && held_ns(l) <= now;
}

int lane_put(struct lane *l, unsigned rank, struct slice text, unsigned flags, uint64_t due_ns,
             uint64_t now)
{
    int rc;

    if (!goes_at_once(l, rank, flags, now)) {
        if (fold_add(l->fold, rank, text, flags, due_ns) < 0)
            return -1;
        return fold_cost(l->fold) > COST_MAX ? lane_drain(l, LANE_DUE, 0, now) : 0;
    }
    l->one[rank / 64] |= UINT64_C(1) << rank % 64;
    rc = show_line(l->show, l->stream, l->one, text, flags, now);
    l->one[rank / 64] = 0;
    return rc;
}
