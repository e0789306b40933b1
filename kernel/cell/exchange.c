/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes on what home and ranks send each other by HAND while ranks run a call of home. A load is
 * one object that home sends to one rank: for cellspan.map a chunk of items. This file chooses the
 * rank for a load that any rank may take. */
#include <stdlib.h>

#include "base/log.h"
#include "kernel/cell/cell_runs.h"

#define TAKES_MAX 16u /* loads that a rank may take at once */

/* A HAND of home that waits until a rank takes it: a load, or a part of one. */
struct load {
    struct load *next;
    struct buf msg; /* the message, encoded */
    bool more;      /* the next one belongs to the same load */
};

/* The first part of a load that a rank got and has not finished. */
struct exchange_held {
    struct exchange_held *next;
    struct buf head;
};

/* A rank that has taken a load, or asked for one. */
struct exchange_rank {
    struct exchange_rank *next;
    struct exchange_held *held, **end; /* in their order, if others may have to do them */
    uint64_t items, failed;            /* that it has done of the load on which it works */
    unsigned rank;
    uint64_t takes; /* how many more loads it takes */
    uint64_t has;   /* loads that it got and has not finished */
    uint64_t asked; /* when it asked: a number that grows */
};

struct exchange {
    struct load *waiting, **end;
    size_t loads; /* how many of those that wait are whole */
    bool last;    /* no more loads will come */
    struct exchange_rank *rank;
    uint64_t asks;
    bool counts;
    struct status_count count;
};

/* The cell's exchange, which is made if there is none. Once there is one, an interrupt of the cell
 * goes to home, too. NULL: memory is out. */
static struct exchange *exchange_of(struct cell *c)
{
    struct exchange *h = c->from.exchange;

    if (h || !(h = calloc(1, sizeof *h)))
        return h;
    h->end = &h->waiting;
    return c->from.exchange = h;
}

static void drop_first(struct exchange *h)
{
    struct load *first = h->waiting;

    if (!(h->waiting = first->next))
        h->end = &h->waiting;
    buf_release(&first->msg);
    free(first);
}

static void drop_held(struct exchange_rank *r)
{
    struct exchange_held *first = r->held;

    if (!(r->held = first->next))
        r->end = &r->held;
    buf_release(&first->head);
    free(first);
}

static void drop_all(struct exchange *h)
{
    while (h->waiting)
        drop_first(h);
    h->loads = 0;
}

void exchange_release(struct cell *c)
{
    struct exchange *h = c->from.exchange;

    if (!h)
        return;
    drop_all(h);
    for (struct exchange_rank *r; (r = h->rank);) {
        h->rank = r->next;
        while (r->held)
            drop_held(r);
        free(r);
    }
    free(h);
    c->from.exchange = NULL;
}

static void no_memory(struct cell *c)
{
    (void)cell_fail(c, "RuntimeError", "the kernel is out of memory");
}

/* ---- to ranks ---- */

/* NULL: memory is out, and the cell fails. */
static struct exchange_rank *exchange_rank_of(struct cell *c, unsigned rank)
{
    struct exchange *h = exchange_of(c);
    struct exchange_rank *r = h ? h->rank : NULL;

    while (r && r->rank != rank)
        r = r->next;
    if (r)
        return r;
    if (!h || !(r = calloc(1, sizeof *r))) {
        no_memory(c);
        return NULL;
    }
    r->rank = rank;
    r->end = &r->held;
    r->next = h->rank;
    return h->rank = r;
}

static const struct member *running(const struct cell *c, unsigned rank)
{
    const struct member *member = cell_member(c, rank);

    return member && member->state == MEMBER_RUNNING ? member : NULL;
}

static void send_down(struct cell *c, const struct member *to, const struct span *m)
{
    struct span down = { .kind = SPAN_HANDED, .cell = c->id, .worker = to->worker };

    down.v[F_HANDED_LOAD].list = m->v[F_HAND_LOAD].list;
    (void)cell_send(c, &to->worker, 1, &down);
}

/* The rank holds the load from now on. */
static void hold(struct cell *c, struct exchange_rank *r, const struct span *m)
{
    struct exchange_held *one = calloc(1, sizeof *one);

    if (!one) {
        no_memory(c);
        return;
    }
    one->head = (struct buf)BUF_INIT;
    *r->end = one;
    r->end = &one->next;
    if (buf_add_slice(&one->head, m->v[F_HAND_LOAD].list.item[0]) < 0)
        no_memory(c);
}

/* Sends the first load that waits. */
static void send_load(struct cell *c, struct exchange_rank *r)
{
    const bool holds = c->from.call_flags & CALL_OUTLIVES;
    struct exchange *h = c->from.exchange;
    bool more = true, first = true;

    h->loads--;
    while (more && h->waiting) {
        struct err err = { "" };
        struct span m;

        more = h->waiting->more;
        if (span_decode(&m, h->waiting->msg.p, h->waiting->msg.n, &err) < 0) {
            no_memory(c);
        } else {
            if (holds && first)
                hold(c, r, &m);
            send_down(c, running(c, r->rank), &m);
            span_release(&m);
        }
        first = false;
        drop_first(h);
    }
}

/* Of the ranks that take a load, the one with the fewest, and of these the one that has waited
 * longest. NULL: nobody takes one. */
static struct exchange_rank *next_rank(const struct cell *c)
{
    struct exchange_rank *first = NULL;

    for (struct exchange_rank *r = c->from.exchange->rank; r; r = r->next)
        if (r->takes && running(c, r->rank) &&
            (!first || r->has < first->has || (r->has == first->has && r->asked < first->asked)))
            first = r;
    return first;
}

/* May the rank take the oldest load? If it works on another one, only if there are more loads than
 * ranks: a rank that becomes free sooner should get it. */
static bool may_take(const struct cell *c, const struct exchange_rank *r)
{
    const struct exchange *h = c->from.exchange;
    size_t ranks = 0;

    if (!h->loads)
        return h->last || c->stop.stopping;
    for (const struct exchange_rank *each = h->rank; each; each = each->next)
        ranks += running(c, each->rank) != NULL;
    return !r->has || h->loads > ranks;
}

/* The oldest load is sent first. */
static void send_loads(struct cell *c)
{
    static const struct span none = { .kind = SPAN_HAND };
    struct exchange *h = c->from.exchange;
    struct exchange_rank *r;

    while ((r = next_rank(c)) && may_take(c, r)) {
        r->takes--;
        if (h->loads) {
            r->has++;
            send_load(c, r);
        } else {
            send_down(c, running(c, r->rank), &none);
        }
    }
}

/* A load for this rank alone. The rank takes no other until it asks again. */
static void for_one(struct cell *c, const struct member *to, const struct span *m)
{
    struct exchange_rank *r = exchange_rank_of(c, to->rank);

    if (!r)
        return;
    r->takes = 0;
    r->has++;
    send_down(c, to, m);
}

static void add_load(struct cell *c, const struct span *m)
{
    struct exchange *h = c->from.exchange;
    struct load *one = calloc(1, sizeof *one);
    struct err err = { "" };

    if (!one) {
        no_memory(c);
        return;
    }
    one->msg = (struct buf)BUF_INIT;
    one->more = (m->v[F_HAND_FLAGS].u64 & HAND_MORE) != 0;
    *h->end = one;
    h->end = &one->next;
    h->loads += !one->more;
    if (span_encode(m, &one->msg, &err) < 0)
        no_memory(c);
}

static void for_any(struct cell *c, const struct span *m)
{
    const uint64_t flags = m->v[F_HAND_FLAGS].u64;
    struct exchange *h = exchange_of(c);

    if (!h) {
        no_memory(c);
        return;
    }
    if (m->v[F_HAND_ITEMS].u64)
        h->count.of = m->v[F_HAND_ITEMS].u64;
    h->counts = h->counts || m->v[F_HAND_ITEMS].u64;
    h->count.again += m->v[F_HAND_AGAIN].u64;
    h->count.failed += m->v[F_HAND_FAILED].u64;
    h->count.done += m->v[F_HAND_FAILED].u64;
    if (flags & HAND_DROP)
        drop_all(h);
    if (m->v[F_HAND_LOAD].list.n && !c->stop.stopping)
        add_load(c, m);
    h->last = h->last || (flags & HAND_LAST) != 0;
    send_loads(c);
}

void exchange_on_home_hand(struct cell *c, const struct span *m)
{
    const uint64_t to = m->v[F_HAND_TO].u64;
    const struct member *member = to <= UINT32_MAX ? running(c, (unsigned)to) : NULL;

    if (cell_runs(c) && m->v[F_HAND_FLAGS].u64 & HAND_STOP)
        cell_fail(c, "RuntimeError", "home has ended the call");
    else if (cell_runs(c) && m->v[F_HAND_FLAGS].u64 & HAND_ANY)
        for_any(c, m);
    else if (member && cell_runs(c))
        for_one(c, member, m);
    else
        log_debug("exchange", "rank %llu runs the cell no more", (unsigned long long)to);
}

/* ---- to home ---- */

static void count(struct exchange *h, struct exchange_rank *r, const struct span *m)
{
    const uint64_t items = m->v[F_HAND_ITEMS].u64, failed = m->v[F_HAND_FAILED].u64;

    h->counts = h->counts || items;
    h->count.done += items;
    h->count.failed += failed;
    h->count.again += m->v[F_HAND_AGAIN].u64;
    r->items += items;
    r->failed += failed;
    if (m->v[F_HAND_FLAGS].u64 & HAND_FINISHED)
        r->items = r->failed = 0;
}

static void note_rank(struct cell *c, unsigned rank, const struct span *m)
{
    const uint64_t takes = m->v[F_HAND_TAKES].u64;
    struct exchange_rank *r = exchange_rank_of(c, rank);

    if (!r)
        return;
    count(c->from.exchange, r, m);
    if (m->v[F_HAND_FLAGS].u64 & HAND_FINISHED && r->has) {
        r->has--;
        if (r->held)
            drop_held(r);
    }
    if (!takes)
        return;
    r->takes = takes < TAKES_MAX - r->takes ? r->takes + takes : TAKES_MAX;
    r->asked = c->from.exchange->asks++;
}

void exchange_on_rank_hand(struct cell *c, const struct member *member, const struct span *m)
{
    struct span up = { .kind = SPAN_HANDED, .worker = SPAN_WORKER_HOME, .cell = c->id };

    if (!c->from.is_call || !cell_runs(c) || member->state != MEMBER_RUNNING)
        return;
    up.v[F_HANDED_FROM].u64 = member->rank;
    up.v[F_HANDED_LOAD].list = m->v[F_HAND_LOAD].list;
    if (up.v[F_HANDED_LOAD].list.n)
        (void)cell_send_home(c, &up);
    note_rank(c, member->rank, m);
    if (c->from.exchange)
        send_loads(c);
}

static size_t held_by(const struct exchange_rank *r)
{
    size_t n = 0;

    for (const struct exchange_held *one = r->held; one; one = one->next)
        n++;
    return n;
}

/* What it had told of the load that it worked on is lost. */
void exchange_rank_died(struct cell *c, unsigned rank, struct slice why)
{
    struct span m = { .kind = SPAN_HANDED, .worker = SPAN_WORKER_HOME, .cell = c->id };
    struct exchange_rank *r = c->from.exchange ? exchange_rank_of(c, rank) : NULL;
    const size_t n = r ? held_by(r) : 0;
    struct slice *heads = n ? calloc(n, sizeof *heads) : NULL;
    size_t k = 0;

    if (n && !heads)
        no_memory(c);
    if (!heads)
        return;
    c->from.exchange->count.done -= r->items;
    c->from.exchange->count.failed -= r->failed;
    for (const struct exchange_held *one = r->held; one; one = one->next)
        heads[k++] = buf_slice(&one->head);
    m.v[F_HANDED_FROM].u64 = rank;
    m.v[F_HANDED_LOAD].list = (struct span_list){ heads, n };
    m.v[F_HANDED_DIED].s = why;
    (void)cell_send_home(c, &m);
    free(heads);
    while (r->held)
        drop_held(r);
    r->items = r->failed = r->takes = r->has = 0;
}

bool exchange_counts(const struct cell *c, struct status_count *count)
{
    const struct exchange *h = c->from.exchange;

    if (!h || !h->counts)
        return false;
    *count = h->count;
    return true;
}

/* The code of a rank may catch the interrupt. Then the rank finishes its load and gets no other. */
void exchange_interrupt(struct cell *c)
{
    const struct span m = { .kind = SPAN_INTERRUPT, .worker = SPAN_WORKER_HOME, .cell = c->id };

    if (!c->from.exchange)
        return;
    notebook_send(c->nb, SPAN_WORKER_HOME, &m);
    drop_all(c->from.exchange);
    send_loads(c);
}
