/* ways.c - see ways.h. */
#include "kernel/agents/ways.h"

#include <stdlib.h>

#include "protocol/span_fields.h"

/* ---- what is sent ---- */

void say_to(struct cargo *c, unsigned node, const struct span *m)
{
    c->doors.send(c->doors.arg, &node, 1, m);
}

static struct span about(const struct load *l, enum span_kind kind)
{
    return (struct span){ .kind = kind, .blob = l->blob, .blob_size = l->size };
}

void say_expect(struct cargo *c, const struct load *l, const unsigned *nodes, size_t n,
                unsigned from)
{
    struct span m = about(l, SPAN_EXPECT);

    m.v[F_EXPECT_FROM].u64 = from;
    c->doors.send(c->doors.arg, nodes, n, &m);
}

void say_ship(struct cargo *c, const struct load *l, unsigned giver, unsigned to, bool through)
{
    struct span m = about(l, SPAN_SHIP);

    m.v[F_SHIP_TO].u64 = to;
    m.v[F_SHIP_THROUGH].u64 = through;
    say_to(c, giver, &m);
}

void say_taken(struct cargo *c, const struct load *l, unsigned giver, unsigned to, uint64_t bytes)
{
    struct span m = about(l, SPAN_TAKEN);

    m.v[F_TAKEN_TO].u64 = to;
    m.v[F_TAKEN_BYTES].u64 = bytes;
    say_to(c, giver, &m);
}

void say_drop(struct cargo *c, uint64_t blob, const unsigned *nodes, size_t n)
{
    char number[8] = { 0 };
    struct span m = { .kind = SPAN_DROP, .v[F_DROP_BLOBS].s = slice_of(number, sizeof number) };

    for (unsigned i = 0; i < 8; i++)
        number[i] = (char)(blob >> (8 * i) & 0xff);
    if (n)
        c->doors.send(c->doors.arg, nodes, n, &m);
}

int cargo_reserve(struct cargo *c, size_t n, struct err *err)
{
    unsigned *node;

    if (n <= c->n_nodes)
        return 0;
    if (!(node = realloc(c->node, n * sizeof *node)))
        return err_set(err, "out of memory");
    c->node = node;
    c->n_nodes = n;
    return 0;
}

/* ---- ways ---- */

void way_begin(struct cargo *c, const struct load *l, struct place *p)
{
    const struct lane *lane = lanes_get(&c->lanes, p->giver, p->node);

    if (p->has || p->through || p->shipped || !p->ready || !lane || lane->state != LANE_UP)
        return;
    p->shipped = true;
    say_ship(c, l, p->giver, p->node, false);
}

void way_by_kernel(struct cargo *c, const struct load *l, struct place *p, unsigned giver)
{
    p->giver = giver;
    p->through = true;
    p->many = false;
    p->shipped = true;
    say_ship(c, l, giver, p->node, true);
}

/* false: there is no such way. */
static bool by_link(struct cargo *c, const struct load *l, struct place *p, unsigned giver)
{
    struct lane *lane = lanes_get(&c->lanes, giver, p->node);
    struct cargo_peer peer;
    struct span m = { .kind = SPAN_OPEN, .v[F_OPEN_NODE].u64 = p->node };

    if (lane && lane->state == LANE_BAD)
        return false;
    if (!lane) {
        if (!c->doors.peer(c->doors.arg, giver, &peer) ||
            !c->doors.peer(c->doors.arg, p->node, &peer) || !lanes_add(&c->lanes, giver, p->node))
            return false;
        m.v[F_OPEN_KEY].s = slice_of(peer.key, 32);
        say_to(c, giver, &m);
    }
    p->giver = giver;
    p->through = p->many = p->shipped = false;
    way_begin(c, l, p);
    return true;
}

static bool is_new(const struct place *p)
{
    return !p->has && !p->shipped && !p->through && !p->many && !p->ready && p->giver == CARGO_ALL;
}

/* To all that are new there: one stream, which the kernel passes on to each. */
static void by_stream(struct cargo *c, struct load *l, unsigned giver)
{
    for (size_t i = 0; i < l->n; i++)
        if (is_new(&l->place[i])) {
            l->place[i].giver = giver;
            l->place[i].through = l->place[i].many = l->place[i].shipped = true;
        }
    l->passed = 0;
    say_ship(c, l, giver, CARGO_ALL, true);
}

/* Each from the one before it, the first from the giver; where there is no link between two, from
 * the giver by way of K. */
static void by_chain(struct cargo *c, struct load *l, unsigned giver)
{
    unsigned before = giver;

    for (size_t i = 0; i < l->n; i++)
        if (is_new(&l->place[i])) {
            const unsigned node = l->place[i].node;

            if (!by_link(c, l, &l->place[i], before))
                way_by_kernel(c, l, &l->place[i], giver);
            before = node;
        }
}

static bool has_stream(const struct load *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->place[i].many && !l->place[i].has)
            return true;
    return false;
}

/* A holder that has a link to that node already; CARGO_ALL: none. */
static unsigned linked_holder(const struct cargo *c, const struct load *l, unsigned node)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct lane *lane = l->place[i].has ? lanes_get(&c->lanes, l->place[i].node, node)
                                                  : NULL;

        if (lane && lane->state == LANE_UP)
            return l->place[i].node;
    }
    return CARGO_ALL;
}

void way_any(struct cargo *c, struct load *l, struct place *p, unsigned giver)
{
    const unsigned linked = l->size < CARGO_CHAIN_SIZE ? CARGO_ALL : linked_holder(c, l, p->node);

    if (linked == CARGO_ALL || !by_link(c, l, p, linked))
        way_by_kernel(c, l, p, giver);
}

void way_all(struct cargo *c, struct load *l, size_t n, unsigned giver)
{
    if (n > 1 && l->size >= CARGO_CHAIN_SIZE)
        by_chain(c, l, giver);
    else if (n > 1 && !has_stream(l))
        by_stream(c, l, giver);
    else
        for (size_t i = 0; i < l->n; i++)
            if (is_new(&l->place[i]))
                way_any(c, l, &l->place[i], giver);
}
