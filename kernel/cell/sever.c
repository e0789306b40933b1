/* Connections between ranks are cut, so that collectives return. An agent knows both ends of a connection within its
 * machine; where ranks are on several, each first says the ends that are its own, and is told those of the others. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/room.h"

#define ENDS_NS (1200 * NS_PER_MS) /* for all to say them: a round trip, and one more for what got lost. Who is late is cut without */

/* The living ranks on the node; n of them. NULL: memory is out. */
static uint32_t *workers_on(const struct group *g, unsigned node, size_t *n)
{
    uint32_t *workers = calloc(g->size + 1u, sizeof *workers);

    *n = 0;
    for (unsigned k = 0; workers && k < g->size; k++)
        if (g->rank[k].worker && g->rank[k].node == node && rank_alive(&g->rank[k]))
            workers[(*n)++] = g->rank[k].worker;
    return workers;
}

static int send(struct cell *c, unsigned node, const struct span *m)
{
    size_t n;
    uint32_t *workers = workers_on(c->nb->group, node, &n);
    const int rc = workers && n ? notebook_send_to(c->nb, workers, n, m, NULL) : -1;

    free(workers);
    return rc;
}

static struct ends_node *find(struct ends *e, unsigned node)
{
    for (size_t k = 0; k < e->n; k++)
        if (e->of[k].node == node)
            return &e->of[k];
    return NULL;
}

void sever_release(struct cell *c)
{
    for (size_t k = 0; k < c->ends.n; k++)
        buf_release(&c->ends.of[k].ends);
    free(c->ends.of);
    c->ends = (struct ends){ .due_ns = NEVER };
}

/* One entry for each node on which ranks live. */
static int list_nodes(struct cell *c)
{
    const struct group *g = c->nb->group;

    sever_release(c);
    if (!(c->ends.of = calloc(g->size + 1u, sizeof *c->ends.of)))
        return -1;
    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].worker && rank_alive(&g->rank[k]) && !find(&c->ends, g->rank[k].node))
            c->ends.of[c->ends.n++].node = g->rank[k].node;
    return 0;
}

static int others_ends(const struct ends *e, const struct ends_node *than, struct buf *out)
{
    for (size_t k = 0; k < e->n; k++)
        if (&e->of[k] != than && buf_add_slice(out, buf_slice(&e->of[k].ends)) < 0)
            return -1;
    return 0;
}

static void cut(struct cell *c)
{
    struct ends *e = &c->ends;

    e->due_ns = NEVER;
    for (size_t k = 0; k < e->n; k++) {
        struct span m = { .kind = SPAN_SEVER, .cell = c->id };
        struct buf ends = BUF_INIT;

        if (others_ends(e, &e->of[k], &ends) < 0 || ends.n > span_info(SPAN_SEVER)->field[F_SEVER_ENDS].max)
            buf_clear(&ends);
        m.v[F_SEVER_ENDS].s = buf_slice(&ends);
        (void)send(c, e->of[k].node, &m);
        buf_release(&ends);
    }
    sever_release(c);
}

void sever_begin(struct cell *c)
{
    const struct span ask = { .kind = SPAN_SEVER, .cell = c->id, .v[F_SEVER_ASK].u64 = 1 };
    bool wait = false;

    if (list_nodes(c) < 0) {
        log_error("sever", "connections between ranks are not cut: out of memory");
        return;
    }
    for (size_t k = 0; c->ends.n > 1 && k < c->ends.n; k++) {
        c->ends.of[k].waiting = send(c, c->ends.of[k].node, &ask) == 0;
        wait = wait || c->ends.of[k].waiting;
    }
    if (wait)
        c->ends.due_ns = notebook_now(c->nb) + ENDS_NS;
    else
        cut(c);
}

void sever_ends(struct cell *c, unsigned node, const struct span *m)
{
    struct ends_node *of = find(&c->ends, node);

    if (!of || !of->waiting || m->cell != c->id || c->ends.due_ns == NEVER)
        return;
    of->waiting = false;
    if (buf_add_slice(&of->ends, m->v[F_ENDS_ENDS].s) < 0)
        log_error("sever", "some connections are not cut: out of memory");
    for (size_t k = 0; k < c->ends.n; k++)
        if (c->ends.of[k].waiting)
            return;
    cut(c);
}

void sever_tick(struct cell *c, uint64_t now)
{
    if (now >= c->ends.due_ns)
        cut(c);
}
