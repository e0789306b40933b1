/* SPDX-License-Identifier: BSD-3-Clause */
/* Joins equal lines of several ranks. It has a list of the lines that wait, and a hash table over
 * it whose buckets have the same order. Lines leave only from the head of the list, so a line that
 * leaves is the first of its bucket. */
#include "kernel/merge/private.h"

#include <stdlib.h>

#define BUCKETS_MIN  256u
#define BUCKETS_KEPT 1024u /* a larger table is freed when nothing waits */
#define NEAR         4u    /* how many lines after the rank's last one are looked at first */
/* the most lines of a bucket that are searched, so that n equal lines don't take n * n steps */
#define FAR 256u

struct bucket {
    struct line *first, *last;
};

struct fold {
    bool joins;
    unsigned words;
    struct line *head, *tail;
    struct bucket *buckets;
    size_t buckets_n; /* a power of two, or 0 */
    size_t count;
    size_t bytes;
    uint64_t seq;
    struct ranks living;
    unsigned behind;    /* number of living ranks without a waiting line */
    struct line **last; /* by rank: its last line that waits, or NULL */
};

struct fold *fold_create(const struct ranks *living, bool joins)
{
    struct fold *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->joins = joins;
    f->words = living->words;
    f->behind = ranks_count(living);
    f->last = calloc((size_t)living->words * 64 + 1, sizeof(struct line *));
    if (!f->last || ranks_copy(&f->living, living) < 0) {
        fold_destroy(f);
        return NULL;
    }
    return f;
}

void fold_destroy(struct fold *f)
{
    if (!f)
        return;
    while (f->head)
        free(fold_take(f));
    free(f->buckets);
    free(f->last);
    ranks_release(&f->living);
    free(f);
}

static uint64_t hash_of(struct slice text, unsigned flags)
{
    uint64_t h = (text.n + flags) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t part = 0;

    for (; text.n >= sizeof part; text.p += sizeof part, text.n -= sizeof part) {
        memcpy(&part, text.p, sizeof part);
        h = (h ^ part) * UINT64_C(0xd6e8feb86659fd93);
        h ^= h >> 32;
    }
    part = 0;
    if (text.n)
        memcpy(&part, text.p, text.n);
    h = (h ^ part) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 29;
}

static void bucket_add(struct fold *f, struct line *l)
{
    struct bucket *b = &f->buckets[l->hash & (f->buckets_n - 1)];

    l->chained = NULL;
    if (b->last)
        b->last->chained = l;
    else
        b->first = l;
    b->last = l;
}

static int buckets_grow(struct fold *f)
{
    const size_t n = f->buckets_n ? f->buckets_n * 2 : BUCKETS_MIN;
    struct bucket *buckets = calloc(n, sizeof *buckets);

    if (!buckets)
        return -1;
    free(f->buckets);
    f->buckets = buckets;
    f->buckets_n = n;
    for (struct line *l = f->head; l; l = l->next)
        bucket_add(f, l);
    return 0;
}

static bool is_equal(const struct line *l, uint64_t hash, struct slice text, unsigned flags)
{
    return l->hash == hash && l->flags == flags && slice_equal(line_text(l), text);
}

/* The first equal line after the rank's last one, or NULL. */
static struct line *find_equal(const struct fold *f, unsigned rank, uint64_t hash,
                               struct slice text, unsigned flags)
{
    const struct line *after = f->last[rank];
    struct line *l = after ? after->next : f->head;
    const struct bucket *b;

    for (unsigned k = 0; l && k < NEAR; k++, l = l->next)
        if (is_equal(l, hash, text, flags))
            return l;
    if (!l)
        return NULL;
    b = &f->buckets[hash & (f->buckets_n - 1)];
    if (!b->last || (after && b->last->seq <= after->seq))
        return NULL;
    l = b->first;
    for (unsigned k = 0; l && k < FAR; k++, l = l->chained)
        if ((!after || l->seq > after->seq) && is_equal(l, hash, text, flags))
            return l;
    return NULL;
}

static void link_last(struct fold *f, struct line *l)
{
    l->next = NULL;
    l->prev = f->tail;
    if (f->tail)
        f->tail->next = l;
    else
        f->head = l;
    f->tail = l;
}

static void unlink_line(struct fold *f, struct line *l)
{
    *(l->prev ? &l->prev->next : &f->head) = l->next;
    *(l->next ? &l->next->prev : &f->tail) = l->prev;
}

static void bucket_drop(struct fold *f, struct line *l)
{
    struct bucket *b = &f->buckets[l->hash & (f->buckets_n - 1)];
    struct line *before = NULL;

    for (struct line *at = b->first; at != l; at = at->chained)
        before = at;
    *(before ? &before->chained : &b->first) = l->chained;
    if (b->last == l)
        b->last = before;
}

/* Is it the last waiting line of all ranks that printed it? */
static bool is_last_of_its_ranks(const struct fold *f, const struct line *l)
{
    const struct ranks who = { (uint64_t *)(uintptr_t)l->who, l->words };

    RANKS_EACH (r, &who)
        if (f->last[r] != l)
            return false;
    return true;
}

/* An equal line of other ranks that may move to the end, or NULL. */
static struct line *find_movable(const struct fold *f, unsigned rank, uint64_t hash,
                                 struct slice text, unsigned flags)
{
    struct line *l = flags & ~(LINE_FRAME | LINE_ERR) || !f->buckets_n
                         ? NULL
                         : f->buckets[hash & (f->buckets_n - 1)].first;

    for (unsigned k = 0; l && k < FAR; k++, l = l->chained)
        if (!(l->who[rank / 64] >> rank % 64 & 1) && is_equal(l, hash, text, flags) &&
            is_last_of_its_ranks(f, l))
            return l;
    return NULL;
}

/* Moves l to the end. The lines that are now before it must leave before its time is up. */
static void move_last(struct fold *f, struct line *l)
{
    if (l == f->tail)
        return;
    bucket_drop(f, l);
    unlink_line(f, l);
    l->seq = f->seq++;
    link_last(f, l);
    bucket_add(f, l);
    for (struct line *at = l->prev; at && at->due_ns > l->due_ns; at = at->prev)
        at->due_ns = l->due_ns;
}

static struct line *append(struct fold *f, uint64_t hash, struct slice text, unsigned flags,
                           uint64_t due_ns)
{
    struct line *l;

    if (f->joins && f->count >= f->buckets_n && buckets_grow(f) < 0)
        return NULL;
    if (!(l = malloc(sizeof *l + f->words * sizeof l->who[0] + text.n)))
        return NULL;
    *l = (struct line){ .seq = f->seq++,
                        .hash = hash,
                        .due_ns = due_ns,
                        .n = text.n,
                        .flags = flags,
                        .words = f->words };
    memset(l->who, 0, f->words * sizeof l->who[0]);
    if (text.n)
        memcpy(l->who + f->words, text.p, text.n);
    link_last(f, l);
    if (f->joins)
        bucket_add(f, l);
    f->count++;
    f->bytes += text.n;
    return l;
}

int fold_add(struct fold *f, unsigned rank, struct slice text, unsigned flags, uint64_t due_ns)
{
    const uint64_t hash = f->joins ? hash_of(text, flags) : 0;
    struct line *l = f->joins ? find_equal(f, rank, hash, text, flags) : NULL;

    if (!l && f->joins && f->last[rank] && (l = find_movable(f, rank, hash, text, flags)))
        move_last(f, l);
    if (!l && !(l = append(f, hash, text, flags, due_ns)))
        return -1;
    l->who[rank / 64] |= UINT64_C(1) << rank % 64;
    if (!f->last[rank] && ranks_has(&f->living, rank))
        f->behind--;
    f->last[rank] = l;
    return 0;
}

void fold_rank_over(struct fold *f, unsigned rank)
{
    if (!ranks_has(&f->living, rank))
        return;
    ranks_remove(&f->living, rank);
    if (!f->last[rank])
        f->behind--;
}

const struct line *fold_head(const struct fold *f)
{
    return f->head;
}

static bool has_all(const struct fold *f, const struct line *l)
{
    for (unsigned i = 0; i < f->living.words && i < l->words; i++)
        if (f->living.bit[i] & ~l->who[i])
            return false;
    return true;
}

bool fold_settled(const struct fold *f)
{
    if (f->behind || !f->head)
        return f->behind == 0;
    return !f->joins || has_all(f, f->head) || !is_last_of_its_ranks(f, f->head);
}

bool fold_has(const struct fold *f, unsigned rank)
{
    return f->last[rank] != NULL;
}

size_t fold_bytes(const struct fold *f)
{
    return f->bytes;
}

size_t fold_cost(const struct fold *f)
{
    return f->bytes + f->count * (sizeof(struct line) + f->words * sizeof(uint64_t));
}

/* Updates the ranks whose last waiting line was l. */
static void forget_last(struct fold *f, const struct line *l)
{
    const struct ranks who = { (uint64_t *)(uintptr_t)l->who, l->words };

    RANKS_EACH (r, &who)
        if (f->last[r] == l) {
            f->last[r] = NULL;
            if (ranks_has(&f->living, (unsigned)r))
                f->behind++;
        }
}

struct line *fold_take(struct fold *f)
{
    struct line *l = f->head;

    if (!l)
        return NULL;
    if (f->joins) {
        struct bucket *b = &f->buckets[l->hash & (f->buckets_n - 1)];

        b->first = l->chained;
        if (!b->first)
            b->last = NULL;
    }
    unlink_line(f, l);
    forget_last(f, l);
    f->count--;
    f->bytes -= l->n;
    if (!f->head && f->buckets_n > BUCKETS_KEPT) {
        free(f->buckets);
        f->buckets = NULL;
        f->buckets_n = 0;
    }
    l->next = NULL;
    return l;
}
