/* cargo.c - see cargo.h. A place that expects a blob has a giver; whatever happens to the giver, to
 * the link between the two or to the blob ends in another giver, or in DROP. */
#include "kernel/agents/cargo.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"
#include "kernel/agents/ways.h"
#include "protocol/span_fields.h"

struct cargo *cargo_create(const struct cargo_doors *doors, struct err *err)
{
    struct cargo *c = calloc(1, sizeof *c);

    if (!c)
        return err_null(err, "out of memory");
    c->doors = *doors;
    return c;
}

void cargo_destroy(struct cargo *c)
{
    if (!c)
        return;
    loads_release(&c->loads);
    lanes_release(&c->lanes);
    free(c->node);
    free(c);
}

int cargo_arrived(struct cargo *c, uint64_t blob, uint64_t size, unsigned node, struct err *err)
{
    struct load *l = loads_add(&c->loads, blob, size);
    struct place *p = l ? load_add(l, node) : NULL;

    if (!p) {
        if (l && l->n == 0)
            loads_remove(&c->loads, l);
        return err_set(err, "out of memory: blob %" PRIu64 " is lost", blob);
    }
    p->has = true;
    return 0;
}

/* To be called when a large blob begins to move, and when one may have ceased to. */
static void look_busy(struct cargo *c)
{
    bool busy = false;

    for (size_t i = 0; i < c->loads.n && !busy; i++)
        busy = c->loads.load[i].size >= CARGO_CHAIN_SIZE && load_is_moving(&c->loads.load[i]);
    if (busy != c->busy && c->doors.busy)
        c->doors.busy(c->doors.arg, busy);
    c->busy = busy;
}

/* -1: memory is out, and no place was added. */
static int add_places(struct cargo *c, struct load *l, const unsigned *nodes, size_t n,
                      size_t *added, struct err *err)
{
    *added = 0;
    if (cargo_reserve(c, l->n + n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const size_t before = l->n;
        struct place *p = load_add(l, nodes[i]);

        if (p && l->n > before) {
            p->giver = CARGO_ALL;
            c->node[(*added)++] = nodes[i];
        } else if (!p) {
            while (*added)
                load_remove(l, load_at(l, c->node[--*added]));
            return err_set(err, "out of memory");
        }
    }
    return 0;
}

int cargo_need(struct cargo *c, uint64_t blob, uint64_t size, const unsigned *nodes, size_t n,
               struct err *err)
{
    struct load *l = loads_get(&c->loads, blob);
    const struct place *holder = l && l->size == size && !l->dropped ? load_holder(l) : NULL;
    unsigned giver;
    size_t added;

    if (!holder)
        return 0; /* its agents find that out */
    giver = holder->node;
    if (add_places(c, l, nodes, n, &added, err) < 0)
        return -1;
    if (!added)
        return 0;
    /* By a link it is a question, whose answer lets the giver begin: it may come before this
     * message otherwise. */
    say_expect(c, l, c->node, added, size >= CARGO_CHAIN_SIZE ? giver : CARGO_ALL);
    way_all(c, l, added, giver);
    if (size >= CARGO_CHAIN_SIZE)
        look_busy(c);
    return 0;
}

/* ---- what becomes of it ---- */

/* Nobody has it any more, or nobody will ask: those that have it, or wait for it, are told. */
static void forget(struct cargo *c, struct load *l)
{
    struct err err = { "" };

    if (cargo_reserve(c, l->n, &err) < 0)
        for (size_t i = 0; i < l->n; i++)
            say_drop(c, l->blob, &l->place[i].node, 1);
    else {
        for (size_t i = 0; i < l->n; i++)
            c->node[i] = l->place[i].node;
        say_drop(c, l->blob, c->node, l->n);
    }
    loads_remove(&c->loads, l);
}

/* true: the blob is forgotten. */
static bool settle(struct cargo *c, struct load *l)
{
    if (load_holder(l) && !(l->dropped && !load_is_moving(l)))
        return false;
    forget(c, l);
    return true;
}

void cargo_drop(struct cargo *c, uint64_t blob)
{
    struct load *l = loads_get(&c->loads, blob);

    if (!l)
        return;
    l->dropped = true;
    (void)settle(c, l);
}

void cargo_cancel(struct cargo *c, uint64_t blob)
{
    struct load *l = loads_get(&c->loads, blob);

    if (l)
        forget(c, l);
    if (c->busy)
        look_busy(c);
}

/* The stream's giver goes on by what the slowest has. */
static void pass_least(struct cargo *c, struct load *l, unsigned giver)
{
    const uint64_t least = load_least(l);

    if (least <= l->passed)
        return;
    l->passed = least;
    say_taken(c, l, giver, CARGO_ALL, least);
}

/* Who was to get it from a giver that can't gets it from somebody who has it all, if anybody
 * has. */
static void give_anew(struct cargo *c, struct load *l, unsigned gone)
{
    const struct place *holder = load_holder(l);
    bool many = false;

    if (!holder)
        return;
    for (size_t i = 0; i < l->n; i++) {
        struct place *p = &l->place[i];

        if (p->has || p->giver != gone)
            continue;
        p->shipped = false;
        if (p->many) {
            p->giver = holder->node;
            many = true;
        } else {
            way_any(c, l, p, holder->node);
        }
    }
    if (!many)
        return;
    l->passed = 0;
    say_ship(c, l, holder->node, CARGO_ALL, true);
    pass_least(c, l, holder->node);
}

/* A node has no part in it any more. true: the blob is forgotten. */
static bool leave(struct cargo *c, struct load *l, unsigned node)
{
    const struct place was = *load_at(l, node);

    load_remove(l, load_at(l, node));
    if (!was.has && was.many)
        pass_least(c, l, was.giver);
    else if (!was.has && was.shipped)
        say_taken(c, l, was.giver, node, l->size); /* so that the giver gives no more */
    give_anew(c, l, node);
    return settle(c, l);
}

void cargo_lost(struct cargo *c, unsigned node)
{
    lanes_lost(&c->lanes, node);
    for (size_t i = c->loads.n; i-- > 0;)
        if (load_at(&c->loads.load[i], node))
            (void)leave(c, &c->loads.load[i], node);
    if (c->busy)
        look_busy(c);
}

void cargo_stop(struct cargo *c)
{
    for (size_t i = c->loads.n; i-- > 0;)
        if (load_is_moving(&c->loads.load[i]))
            forget(c, &c->loads.load[i]);
    if (c->busy)
        look_busy(c);
}

/* ---- messages ---- */

static void on_held(struct cargo *c, unsigned node, const struct span *m)
{
    struct load *l = loads_get(&c->loads, m->blob);
    struct place *p = l ? load_at(l, node) : NULL;
    const struct slice error = m->v[F_HELD_ERROR].s;

    if (!p)
        return;
    if (error.n) {
        log_warn("cargo", "blob %" PRIu64 " is not on node %u: %.*s", m->blob, node,
                 SLICE_ARG(error));
        if (p->has)
            say_drop(c, l->blob, &node, 1); /* it may have it, and can't give it */
        (void)leave(c, l, node);
        return;
    }
    p->has = true;
    p->had = l->size;
    if (p->many)
        pass_least(c, l, p->giver);
    (void)settle(c, l);
}

static void on_taken(struct cargo *c, unsigned node, const struct span *m)
{
    struct load *l = loads_get(&c->loads, m->blob);
    struct place *p = l ? load_at(l, node) : NULL;
    const uint64_t bytes = m->v[F_TAKEN_BYTES].u64;

    if (!p || bytes > l->size)
        return;
    p->ready = true;
    p->had = bytes > p->had ? bytes : p->had;
    if (p->has)
        return;
    if (p->many)
        pass_least(c, l, p->giver);
    else if (p->through)
        say_taken(c, l, p->giver, node, p->had);
    else
        way_begin(c, l, p);
}

static bool wants_chunk(const struct place *p, unsigned giver, bool many)
{
    return p && !p->has && p->through && p->many == many && p->giver == giver;
}

static void on_chunk(struct cargo *c, unsigned node, const struct span *m)
{
    struct load *l = loads_get(&c->loads, m->blob);
    const uint64_t to = m->v[F_CHUNK_TO].u64;
    struct err err = { "" };
    size_t n = 0;

    if (!l || cargo_reserve(c, l->n, &err) < 0)
        return;
    for (size_t i = 0; i < l->n; i++)
        if ((to == CARGO_ALL || to == l->place[i].node) &&
            wants_chunk(&l->place[i], node, to == CARGO_ALL))
            c->node[n++] = l->place[i].node;
    if (n)
        c->doors.send(c->doors.arg, c->node, n, m);
}

/* ---- how far it is ---- */

/* Up the chain, which is no longer than there are places. */
static uint64_t known_of(const struct load *l, const struct place *p)
{
    for (size_t i = 0; i < l->n && p && !p->has && !p->through; i++)
        p = load_at(l, p->giver);
    return p && !p->has ? (p->many ? load_least(l) : p->had) : UINT64_MAX;
}

uint64_t cargo_expected(const struct cargo *c, unsigned node, uint64_t *had)
{
    uint64_t bytes = 0;

    *had = 0;
    for (size_t i = 0; c->busy && i < c->loads.n; i++) {
        const struct load *l = &c->loads.load[i];
        const struct place *p = l->size < CARGO_CHAIN_SIZE ? NULL : load_at(l, node);
        const uint64_t known = p && !p->has ? known_of(l, p) : 0;

        if (!p || p->has)
            continue;
        bytes += l->size;
        *had = known == UINT64_MAX || *had == UINT64_MAX ? UINT64_MAX : *had + known;
    }
    return bytes;
}

/* ---- links ---- */

static void lane_bad(struct cargo *c, struct lane *lane, struct slice why)
{
    const unsigned giver = lane->giver, taker = lane->taker;

    log_warn("cargo", "no link from node %u to node %u, so the kernel passes blobs on: %.*s", giver,
             taker, SLICE_ARG(why));
    lane->state = LANE_BAD;
    for (size_t i = 0; i < c->loads.n; i++) {
        struct load *l = &c->loads.load[i];
        struct place *p = load_at(l, taker);
        const struct place *holder = load_holder(l);

        if (p && holder && !p->has && !p->through && p->giver == giver)
            way_by_kernel(c, l, p, holder->node);
    }
}

static void lane_up(struct cargo *c, struct lane *lane)
{
    lane->state = LANE_UP;
    for (size_t i = 0; i < c->loads.n; i++) {
        struct place *p = load_at(&c->loads.load[i], lane->taker);

        if (p && p->giver == lane->giver)
            way_begin(c, &c->loads.load[i], p);
    }
}

static void dial(struct cargo *c, struct lane *lane, unsigned port)
{
    struct span m = { .kind = SPAN_DIAL,
                      .v[F_DIAL_NODE].u64 = lane->giver,
                      .v[F_DIAL_ROLE].u64 = 1 };
    struct buf endpoints = BUF_INIT;
    struct cargo_peer peer;

    if (!c->doors.peer(c->doors.arg, lane->giver, &peer)) {
        lane_bad(c, lane, slice_text("its addresses are not known"));
    } else if (lane_endpoints(slice_text(peer.addresses), port, &endpoints) < 0) {
        lane_bad(c, lane, slice_text("out of memory"));
    } else {
        m.v[F_DIAL_ENDPOINTS].s = buf_slice(&endpoints);
        m.v[F_DIAL_KEY].s = slice_of(peer.key, 32);
        lane->state = LANE_DIALING;
        say_to(c, lane->taker, &m);
    }
    buf_release(&endpoints);
}

/* The giver listens, or can't; or it says that the link has ended. */
static bool on_opened(struct cargo *c, unsigned node, const struct span *m)
{
    struct lane *lane = lanes_get(&c->lanes, node, (unsigned)m->v[F_OPENED_NODE].u64);
    const struct slice error = m->v[F_OPENED_ERROR].s;

    if (!lane || (lane->state != LANE_OPENING && !error.n))
        return false;
    if (error.n)
        lane_bad(c, lane, error);
    else
        dial(c, lane, (unsigned)m->v[F_OPENED_PORT].u64);
    return true;
}

static bool on_dialed(struct cargo *c, unsigned node, const struct span *m)
{
    struct lane *lane = lanes_get(&c->lanes, (unsigned)m->v[F_DIALED_NODE].u64, node);
    const struct slice error = m->v[F_DIALED_ERROR].s;

    if (!lane || lane->state != LANE_DIALING)
        return false;
    if (error.n)
        lane_bad(c, lane, error);
    else
        lane_up(c, lane);
    return true;
}

bool cargo_message(struct cargo *c, unsigned node, const struct span *m)
{
    switch (m->kind) {
    case SPAN_OPENED:
        return on_opened(c, node, m);
    case SPAN_DIALED:
        return on_dialed(c, node, m);
    case SPAN_HELD:
        on_held(c, node, m);
        if (c->busy)
            look_busy(c);
        return true;
    case SPAN_TAKEN:
        on_taken(c, node, m);
        return true;
    case SPAN_CHUNK:
        on_chunk(c, node, m);
        return true;
    default:
        return false;
    }
}
