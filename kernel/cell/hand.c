/* Passes on what home and ranks hand each other while ranks run a call of home, and hands out what
 * is for any rank: the items and results of cellspan.map. */
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

/* A rank takes one more load. */
struct taker {
    struct taker *next;
    unsigned rank;
};

struct hands {
    struct load *waiting, **end;
    size_t loads; /* how many of those that wait are whole */
    bool last;    /* no more loads will come */
    struct taker *taker, **takers_end;
};

/* From now on an interrupt is for home, too. NULL: memory is out. */
static struct hands *hands_of(struct cell *c)
{
    struct hands *h = c->from.hands;

    if (h || !(h = calloc(1, sizeof *h)))
        return h;
    h->end = &h->waiting;
    h->takers_end = &h->taker;
    return c->from.hands = h;
}

static void drop_first(struct hands *h)
{
    struct load *first = h->waiting;

    if (!(h->waiting = first->next))
        h->end = &h->waiting;
    buf_release(&first->msg);
    free(first);
}

static void drop_all(struct hands *h)
{
    while (h->waiting)
        drop_first(h);
    h->loads = 0;
}

static void drop_taker(struct hands *h)
{
    struct taker *first = h->taker;

    if (!(h->taker = first->next))
        h->takers_end = &h->taker;
    free(first);
}

void hand_release(struct cell *c)
{
    struct hands *h = c->from.hands;

    if (!h)
        return;
    drop_all(h);
    while (h->taker)
        drop_taker(h);
    free(h);
    c->from.hands = NULL;
}

static void no_memory(struct cell *c)
{
    (void)cell_fail(c, "RuntimeError", "the kernel is out of memory");
}

/* ---- to ranks ---- */

static void send_down(struct cell *c, const struct member *to, const struct span *m)
{
    struct span down = { .kind = SPAN_HANDED, .cell = c->id, .worker = to->worker };

    down.v[F_HANDED_PARTS].list = m->v[F_HAND_PARTS].list;
    (void)cell_send(c, &to->worker, 1, &down);
}

/* Sends the first load that waits. */
static void send_load(struct cell *c, const struct member *to)
{
    struct hands *h = c->from.hands;
    bool more = true;

    h->loads--;
    while (more && h->waiting) {
        struct err err = { "" };
        struct span m;

        more = h->waiting->more;
        if (span_decode(&m, h->waiting->msg.p, h->waiting->msg.n, &err) < 0) {
            no_memory(c);
        } else {
            send_down(c, to, &m);
            span_release(&m);
        }
        drop_first(h);
    }
}

/* The rank that has waited longest gets the oldest load. */
static void hand_out(struct cell *c)
{
    static const struct span none = { .kind = SPAN_HAND };
    struct hands *h = c->from.hands;

    while (h->taker && (h->loads || h->last)) {
        const struct member *to = cell_member(c, h->taker->rank);

        drop_taker(h);
        if (!to || to->state != MEMBER_RUNNING)
            continue;
        if (h->loads)
            send_load(c, to);
        else
            send_down(c, to, &none);
    }
}

static void add_load(struct cell *c, const struct span *m)
{
    struct hands *h = c->from.hands;
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
    struct hands *h = hands_of(c);

    if (!h) {
        no_memory(c);
        return;
    }
    if (flags & HAND_DROP)
        drop_all(h);
    if (m->v[F_HAND_PARTS].list.n)
        add_load(c, m);
    h->last = h->last || (flags & HAND_LAST) != 0;
    hand_out(c);
}

void hand_down(struct cell *c, const struct span *m)
{
    const uint64_t to = m->v[F_HAND_TO].u64;
    const struct member *member = to <= UINT32_MAX ? cell_member(c, (unsigned)to) : NULL;

    if (cell_runs(c) && m->v[F_HAND_FLAGS].u64 & HAND_ANY)
        for_any(c, m);
    else if (member && cell_runs(c) && member->state == MEMBER_RUNNING)
        send_down(c, member, m);
    else
        log_debug("hand", "rank %llu runs the cell no more", (unsigned long long)to);
}

/* ---- to home ---- */

static void add_takers(struct cell *c, unsigned rank, uint64_t n)
{
    struct hands *h = c->from.hands;

    for (; n > 0; n--) {
        struct taker *one = calloc(1, sizeof *one);

        if (!one) {
            no_memory(c);
            return;
        }
        one->rank = rank;
        *h->takers_end = one;
        h->takers_end = &one->next;
    }
}

void hand_up(struct cell *c, const struct member *member, const struct span *m)
{
    struct span up = { .kind = SPAN_HANDED, .worker = SPAN_WORKER_HOME, .cell = c->id };
    const uint64_t takes = m->v[F_HAND_TAKES].u64;

    if (!c->from.is_call || !cell_runs(c) || member->state != MEMBER_RUNNING)
        return;
    if (!hands_of(c)) {
        no_memory(c);
        return;
    }
    up.v[F_HANDED_FROM].u64 = member->rank;
    up.v[F_HANDED_PARTS].list = m->v[F_HAND_PARTS].list;
    if (up.v[F_HANDED_PARTS].list.n)
        (void)cell_send_home(c, &up);
    add_takers(c, member->rank, takes < TAKES_MAX ? takes : TAKES_MAX);
    hand_out(c);
}

void hand_interrupt(struct cell *c)
{
    const struct span m = { .kind = SPAN_INTERRUPT, .worker = SPAN_WORKER_HOME, .cell = c->id };

    if (c->from.hands)
        notebook_send(c->nb, SPAN_WORKER_HOME, &m);
}
