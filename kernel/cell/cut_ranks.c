/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts connections between ranks, so that their collectives return. An agent finds both ends of a
 * connection within its own node. For several nodes, each agent first reports the connections
 * of its ranks; the kernel matches the two ends and tells each agent which connections to cut. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_stops.h"

/* Time limit for the reports: a round trip, and another one after a lost packet. Without a node's
 * report the kernel sends it all connections of the others. */
#define ANSWER_NS (1200 * NS_PER_MS)

#define END_SIZE  18u                /* bytes of one end: an address and a port */
#define IP_SIZE   16u                /* bytes of its address */
#define PAIR_SIZE (2 * END_SIZE)     /* bytes of a connection in CONNECTIONS */
#define ALL_MAX   ((size_t)64 << 20) /* bytes of all reports together */

/* Connections between ranks that are to be cut, as each node has named them. */
struct cut_ranks {
    uint64_t due_ns; /* the kernel waits for answers until then; NEVER: it does not wait */
    struct cut_ranks_node {
        unsigned node;
        bool waiting;
        struct buf connections; /* as in CONNECTIONS */
    } *of;                      /* owned, n of them */
    size_t n;
    bool more; /* there are more than a message can hold */
    /* the addresses of lost nodes that may hold connections, 16 bytes each */
    struct buf holders;
};

/* Are the rank's connections cut? Those of ranks that run this cell are, and those of ranks that
 * run no cell or one that is being stopped, since a rank of this cell may wait for them. Other
 * cells keep the connections of their ranks. */
static bool is_concerned(const struct cell *c, const struct rank *r)
{
    const struct cell *runs = rank_alive(r) ? cell_on(c->nb, r->worker) : NULL;

    return rank_alive(r) && (!runs || runs == c || runs->stop.stopping);
}

struct recipients {
    const struct cell *cell;
    unsigned node;
};

static bool is_recipient(const struct rank *r, const void *arg)
{
    const struct recipients *to = arg;

    return r->node == to->node && is_concerned(to->cell, r);
}

static int send(struct cell *c, unsigned node, const struct span *m)
{
    const struct recipients to = { c, node };

    return notebook_send_ranks(c->nb, c->group, is_recipient, &to, m, NULL);
}

static struct cut_ranks_node *find(struct cut_ranks *e, unsigned node)
{
    for (size_t k = 0; k < e->n; k++)
        if (e->of[k].node == node)
            return &e->of[k];
    return NULL;
}

void cut_ranks_cancel(struct cell *c)
{
    if (c->stop.cut)
        c->stop.cut->due_ns = NEVER;
}

void cut_ranks_put_off(struct cell *c, uint64_t ns)
{
    if (cut_ranks_due(c) != NEVER)
        c->stop.cut->due_ns += ns;
}

void cut_ranks_release(struct cell *c)
{
    struct cut_ranks *e = c->stop.cut;

    for (size_t k = 0; e && k < e->n; k++)
        buf_release(&e->of[k].connections);
    if (e) {
        buf_release(&e->holders);
        free(e->of);
    }
    free(e);
    c->stop.cut = NULL;
}

/* One entry for each node on which concerned ranks live. */
static int list_nodes(struct cell *c)
{
    const struct group *g = c->group;
    struct cut_ranks *e;

    cut_ranks_release(c);
    if (!(e = c->stop.cut = calloc(1, sizeof *e)) || !(e->of = calloc(g->size + 1u, sizeof *e->of)))
        return -1;
    e->due_ns = NEVER;
    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].worker && is_concerned(c, &g->rank[k]) && !find(e, g->rank[k].node))
            e->of[e->n++].node = g->rank[k].node;
    return 0;
}

static bool has_address(const struct buf *list, const char *ip)
{
    for (size_t at = 0; at + IP_SIZE <= list->n; at += IP_SIZE)
        if (memcmp(list->p + at, ip, IP_SIZE) == 0)
            return true;
    return false;
}

/* lost: adds the addresses of lost nodes that may hold connections; else of nodes that are there.
 */
static int add_addresses(const struct cell *c, bool lost, struct buf *out)
{
    GROUP_NODES_EACH (node, group_nodes_of(c->nb)) {
        const struct node *info = c->nb->ops.node(c->nb->ops.arg, node->number);

        if (node->lost == lost && (!lost || (info && info->may_hold_connections)) &&
            node_addresses_add_bytes(c->nb, node->number, out) < 0)
            return -1;
    }
    return 0;
}

/* A node that was switched off, cut off or frozen can't report its ends, and its connections
 * stay open on the other side. An address that other nodes have, too, is left out: all nodes
 * may have the same one for their containers. */
static int list_holders(struct cell *c)
{
    struct buf lost = BUF_INIT, others = BUF_INIT;
    int rc = add_addresses(c, true, &lost);

    if (rc == 0 && lost.n)
        rc = add_addresses(c, false, &others);
    for (size_t at = 0; rc == 0 && at + IP_SIZE <= lost.n; at += IP_SIZE)
        if (!has_address(&others, lost.p + at))
            rc = buf_add(&c->stop.cut->holders, lost.p + at, IP_SIZE);
    buf_release(&lost);
    buf_release(&others);
    return rc;
}

/* ---- matching ends ---- */

/* The connections that all nodes have reported, sorted by their bytes. */
struct reports {
    struct pair {
        const char *bytes;
        const struct cut_ranks_node *of;
    } *pair;
    size_t n;
};

static int by_bytes(const void *a, const void *b)
{
    return memcmp(((const struct pair *)a)->bytes, ((const struct pair *)b)->bytes, PAIR_SIZE);
}

static int reports_sort(struct reports *s, const struct cut_ranks *e)
{
    size_t most = 0;

    for (size_t k = 0; k < e->n; k++)
        most += e->of[k].connections.n / PAIR_SIZE;
    *s = (struct reports){ calloc(most + 1, sizeof *s->pair), 0 };
    if (!s->pair)
        return -1;
    for (size_t k = 0; k < e->n; k++)
        for (size_t i = 0; i < e->of[k].connections.n / PAIR_SIZE; i++)
            s->pair[s->n++] = (struct pair){ e->of[k].connections.p + i * PAIR_SIZE, &e->of[k] };
    qsort(s->pair, s->n, sizeof *s->pair, by_bytes);
    return 0;
}

/* Adds the node's connections that another node has reported too, with the two ends swapped, and
 * those to nodes that may hold connections. They are added as the other node has reported them, or
 * would have. */
static int add_matches(const struct cut_ranks *e, const struct reports *s,
                       const struct cut_ranks_node *of, struct buf *out)
{
    for (size_t i = 0; s->n && i < of->connections.n / PAIR_SIZE; i++) {
        const char *p = of->connections.p + i * PAIR_SIZE;
        char turned[PAIR_SIZE];
        const struct pair key = { turned, NULL }, *found;

        memcpy(turned, p + END_SIZE, END_SIZE);
        memcpy(turned + END_SIZE, p, END_SIZE);
        found = bsearch(&key, s->pair, s->n, sizeof key, by_bytes);
        if (((found && found->of != of) || has_address(&e->holders, turned)) &&
            buf_add(out, turned, PAIR_SIZE) < 0)
            return -1;
    }
    return 0;
}

/* For a node that has not reported: adds all connections of the others, up to the size of a
 * message. */
static int add_others(struct cut_ranks *e, const struct cut_ranks_node *than, struct buf *out)
{
    const size_t most = span_info(SPAN_CUT_RANKS)->field[F_CUT_RANKS_CONNECTIONS].max;

    for (size_t k = 0; k < e->n; k++) {
        struct slice s = buf_slice(&e->of[k].connections);

        if (&e->of[k] == than)
            continue;
        if (s.n > most - out->n) {
            s.n = (most - out->n) / PAIR_SIZE * PAIR_SIZE;
            e->more = true;
        }
        if (buf_add_slice(out, s) < 0)
            return -1;
    }
    return 0;
}

/* ---- cutting ---- */

static void cut_at(struct cell *c, const struct reports *reports, const struct cut_ranks_node *of)
{
    struct span m = { .kind = SPAN_CUT_RANKS, .cell = c->id };
    struct buf connections = BUF_INIT;

    if ((of->waiting ? add_others(c->stop.cut, of, &connections)
                     : add_matches(c->stop.cut, reports, of, &connections)) < 0)
        c->stop.cut->more = true;
    m.v[F_CUT_RANKS_CONNECTIONS].s = buf_slice(&connections);
    (void)send(c, of->node, &m);
    buf_release(&connections);
}

static void cut(struct cell *c)
{
    struct cut_ranks *e = c->stop.cut;
    struct reports reports;

    e->due_ns = NEVER;
    if (reports_sort(&reports, e) < 0)
        e->more = true;
    for (size_t k = 0; k < e->n; k++)
        cut_at(c, &reports, &e->of[k]);
    free(reports.pair);
    if (e->more)
        output_note(
            c,
            "there are more connections between the machines than can be cut: ranks that wait on one of the "
            "others are killed if they don't stop");
    cut_ranks_release(c);
}

void cut_ranks_begin(struct cell *c)
{
    const struct span ask = { .kind = SPAN_CUT_RANKS, .cell = c->id, .v[F_CUT_RANKS_ASK].u64 = 1 };
    bool wait = false, ask_all;

    if (list_nodes(c) < 0 || list_holders(c) < 0) {
        log_error("cut", "connections between ranks are not cut: out of memory");
        cut_ranks_release(c);
        return;
    }
    ask_all = c->stop.cut->n > 1 || c->stop.cut->holders.n;
    for (size_t k = 0; ask_all && k < c->stop.cut->n; k++) {
        c->stop.cut->of[k].waiting = send(c, c->stop.cut->of[k].node, &ask) == 0;
        wait = wait || c->stop.cut->of[k].waiting;
    }
    if (wait)
        c->stop.cut->due_ns = notebook_now(c->nb) + ANSWER_NS;
    else
        cut(c);
}

/* If the message is full, its agent may have left out some connections. */
static void add_connections(struct cut_ranks *e, struct cut_ranks_node *of, struct slice said)
{
    size_t all = 0;

    for (size_t k = 0; k < e->n; k++)
        all += e->of[k].connections.n;
    if (said.n + PAIR_SIZE > span_info(SPAN_CONNECTIONS)->field[F_CONNECTIONS_CONNECTIONS].max)
        e->more = true;
    if (all + said.n > ALL_MAX || buf_add_slice(&of->connections, said) < 0)
        e->more = true;
}

void cut_ranks_on_connections(struct cell *c, unsigned node, const struct span *m)
{
    struct cut_ranks_node *of = c->stop.cut ? find(c->stop.cut, node) : NULL;

    if (!of || !of->waiting || m->cell != c->id || c->stop.cut->due_ns == NEVER)
        return;
    of->waiting = false;
    add_connections(c->stop.cut, of, m->v[F_CONNECTIONS_CONNECTIONS].s);
    for (size_t k = 0; k < c->stop.cut->n; k++)
        if (c->stop.cut->of[k].waiting)
            return;
    cut(c);
}

uint64_t cut_ranks_due(const struct cell *c)
{
    return c->stop.cut ? c->stop.cut->due_ns : NEVER;
}

void cut_ranks_tick(struct cell *c, uint64_t now)
{
    if (now >= cut_ranks_due(c))
        cut(c);
}
