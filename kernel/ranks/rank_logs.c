/* SPDX-License-Identifier: BSD-3-Clause */
/* %ranks logs: shows what a cell has printed, from the copies that agents keep. It asks for one
 * piece after the other, and not faster than Jupyter's server lets them through. */
#include <stdlib.h>

#include "kernel/cell/cell_nodes.h"
#include "kernel/ranks/ranks.h"
#include "protocol/bytes.h"

#define ANSWER_NS (10 * NS_PER_S) /* time limit for a node, which may have much to read */
#define PIECE     (560u << 10)    /* about the bytes of one answer as text */
#define HOME_RANK UINT32_MAX

struct rank_logs {
    unsigned count;  /* In [count] */
    struct ran *ran; /* owned, n of them: the cells with this number */
    size_t n, at;
    unsigned *node; /* owned, nodes of them */
    size_t nodes, at_node;
    struct buf bits; /* the ranks to show, as in LOGS */
    uint64_t place;  /* LOGS' `at` */
    uint64_t end;    /* LOGS' `end` of the node's first answer */
    bool waiting, lost, found, over;
    bool known; /* a cell with this number has run */
};

/* The number of the last cell on ranks; if there is none, of the last cell at home. */
static unsigned last_count(const struct notebook *nb)
{
    for (size_t k = nb->ran.n; k > 0; k--)
        if (nb->ran.of[k - 1].ranks)
            return nb->ran.of[k - 1].count;
    return nb->ran.n ? nb->ran.of[nb->ran.n - 1].count : 0;
}

static int find_cells(struct cell *c, struct rank_logs *l)
{
    const struct notebook *nb = c->nb;

    l->count = c->plan.cell ? c->plan.cell : last_count(nb);
    if (!(l->ran = calloc(nb->ran.n + 1, sizeof *l->ran)))
        return -1;
    for (size_t k = 0; k < nb->ran.n; k++)
        if (nb->ran.of[k].count == l->count) {
            l->known = true;
            if (nb->ran.of[k].ranks || !c->plan.ranks)
                l->ran[l->n++] = nb->ran.of[k];
        }
    return 0;
}

static int find_nodes(struct notebook *nb, struct rank_logs *l)
{
    if (!(l->node = calloc(nb->nodes, sizeof *l->node)))
        return -1;
    l->node[l->nodes++] = NODE_HERE;
    GROUP_NODES_EACH (node, group_nodes_of(nb))
        if (node->number != NODE_HERE && !node->lost)
            l->node[l->nodes++] = node->number;
    return 0;
}

/* Without -r: all ranks of the group when the cell ran. */
static int find_ranks(struct cell *c, struct rank_logs *l, struct err *err)
{
    unsigned most = 0;

    for (size_t k = 0; k < l->n; k++)
        most = l->ran[k].ranks > most ? l->ran[k].ranks : most;
    if (c->plan.ranks && most == 0)
        return err_set(err, c->plan.cell ? "no ranks ran that cell: leave out --cell, or -r"
                                         : NO_RANKS_YET);
    if (c->plan.ranks && ranks_parse(&c->to, c->plan.ranks, most, err) < 0)
        return -1;
    if (!c->plan.ranks && most && ranks_add_range(&c->to, 0, most - 1) < 0)
        return err_set(err, "out of memory");
    for (unsigned k = 0; k < c->to.words * 64; k += 8) {
        const char byte = (char)(c->to.bit[k / 64] >> k % 64 & 0xff);

        if (buf_add(&l->bits, &byte, 1) < 0)
            return err_set(err, "out of memory");
    }
    return 0;
}

/* ---- asking ---- */

/* Does a cell with this number still run? What it prints from now on is not shown. */
static bool still_runs(const struct cell *c)
{
    const struct rank_logs *l = c->magic.logs;
    const struct asked *a = c->nb->home.executing;

    for (size_t k = 0; k < l->n; k++)
        if (cell_find(c->nb, l->ran[k].id) || (a && a->cell == l->ran[k].id))
            return true;
    return false;
}

static void finish_logs(struct cell *c)
{
    struct rank_logs *l = c->magic.logs;

    if (l->lost)
        output_note(
            c,
            "lines of cell %u are missing: a node keeps as much as CELLSPAN_SPOOL_LIMIT says, or 128M, and less if its TMPDIR is full",
            l->count);
    if (!l->known)
        output_news(c, "no cell has run yet");
    else if (still_runs(c))
        output_note(c,
                    l->found ? "cell %u still runs"
                             : "cell %u still runs: it has printed nothing yet",
                    l->count);
    else if (!l->found)
        output_note(
            c,
            "no output of cell %u is stored: it printed nothing, is too old, or ran on machines that are gone",
            l->count);
    l->over = true;
}

static void ask(struct cell *c)
{
    struct rank_logs *l = c->magic.logs;
    struct err err = { "" };

    for (; l->at < l->n; l->at++, l->at_node = 0) {
        const struct ran *ran = &l->ran[l->at];

        for (; l->at_node < (ran->ranks ? l->nodes : 1); l->at_node++, l->place = 0) {
            struct span m = { .kind = SPAN_LOGS, .cell = c->id };

            m.v[F_LOGS_OF].u64 = ran->id;
            m.v[F_LOGS_AT].u64 = l->place;
            if (ran->ranks)
                m.v[F_LOGS_RANKS].s = buf_slice(&l->bits);
            l->waiting = true;
            cell_limit_step(c, notebook_now(c->nb) + ANSWER_NS);
            if (notebook_send_node(c->nb, l->node[l->at_node], &m, &err) == 0)
                return;
        }
    }
    finish_logs(c);
}

/* Asks for the next piece, when Jupyter's server will let it through. A cell that runs may use all
 * that is for text. */
static void go_on(struct cell *c)
{
    const enum output_limit_for what = cell_find(c->nb, c->id) ? LIMIT_TEXT : LIMIT_REST;

    c->magic.logs->waiting = false;
    if (c->nb->output_limit && !output_limit_fits(c->nb->output_limit, what, PIECE))
        cell_limit_step(c, output_limit_due_ns(c->nb->output_limit));
    else
        ask(c);
}

static void skip_node(struct cell *c)
{
    output_note(c, "%s does not answer: what its ranks printed is not shown",
                notebook_node_name(c->nb, c->magic.logs->node[c->magic.logs->at_node]));
    c->magic.logs->at_node++;
    c->magic.logs->place = 0;
    go_on(c);
}

void rank_logs_begin(struct cell *c)
{
    struct rank_logs *l = c->magic.logs = calloc(1, sizeof *l);
    struct err err = { "" };

    if (!l || find_cells(c, l) < 0 || find_nodes(c->nb, l) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else if (!l->known && c->plan.cell) {
        cell_fail(c, "UsageError",
                  "--cell %u: no such cell ran here (the last on ranks is In [%u])", l->count,
                  last_count(c->nb));
    } else if (find_ranks(c, l, &err) < 0) {
        cell_fail(c, c->plan.ranks ? "UsageError" : "RuntimeError", "%s%s%s%s",
                  c->plan.ranks ? "-r " : "", c->plan.ranks ? c->plan.ranks : "",
                  c->plan.ranks ? ": " : "", err.text);
    } else {
        /* the lines don't come at their original times, so they can't be folded */
        c->plan.merge = PLAN_PREFIX;
        go_on(c);
    }
}

enum cell_outcome rank_logs_poll(struct cell *c)
{
    return c->magic.logs->over ? CELL_DONE : CELL_STAYS;
}

/* ---- answers ---- */

static void show_record(struct cell *c, struct reader *r)
{
    struct span m = { .kind = SPAN_LINES };
    const uint32_t rank = reader_u32(r);

    m.v[F_LINES_STREAM].u64 = reader_u32(r);
    m.v[F_LINES_FLAGS].u64 = reader_u32(r);
    m.v[F_LINES_DATA].s = reader_take(r, reader_u32(r));
    if (r->bad)
        return;
    c->magic.logs->found = true;
    if (rank == HOME_RANK)
        output_text(c, (unsigned)m.v[F_LINES_STREAM].u64, m.v[F_LINES_DATA].s);
    else if (rank < c->to.words * 64)
        output_on_lines(c, rank, &m);
}

void rank_logs_on_logs(struct cell *c, unsigned node, const struct span *m)
{
    struct rank_logs *l = c->magic.logs;
    struct reader r = reader_of(m->v[F_LOGS_DATA].s.p, m->v[F_LOGS_DATA].s.n);

    if (!l || !l->waiting || m->cell != c->id || l->at >= l->n ||
        m->v[F_LOGS_OF].u64 != l->ran[l->at].id || node != l->node[l->at_node])
        return;
    while (reader_left(&r) && !r.bad)
        show_record(c, &r);
    l->lost = l->lost || m->v[F_LOGS_FLAGS].u64 & LOGS_LOST;
    if (!l->place)
        l->end = m->v[F_LOGS_END].u64;
    l->place = m->v[F_LOGS_AT].u64;
    if (!(m->v[F_LOGS_FLAGS].u64 & LOGS_MORE) || l->place >= l->end) {
        l->at_node++;
        l->place = 0;
    }
    go_on(c);
}

void rank_logs_lost(struct cell *c, unsigned node)
{
    if (c->magic.logs && c->magic.logs->waiting &&
        c->magic.logs->node[c->magic.logs->at_node] == node)
        skip_node(c);
}

void rank_logs_timed_out(struct cell *c)
{
    if (c->magic.logs->waiting)
        skip_node(c);
    else
        go_on(c);
}

void rank_logs_free(struct rank_logs *l)
{
    if (!l)
        return;
    buf_release(&l->bits);
    free(l->ran);
    free(l->node);
    free(l);
}

const struct cell_step cell_logs = { CELL_BEFORE, .begin = rank_logs_begin, .poll = rank_logs_poll,
                                     .timed_out = rank_logs_timed_out };
