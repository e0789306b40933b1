/* %ranks: who they are and where they stand; stop and restart. */
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"
#include "kernel/status/status.h"

#define TABLE_WAIT_NS (1 * NS_PER_S) /* for the nodes to say what their ranks hold */

void manage_kill(struct notebook *nb, struct group *g, const struct ranks *which, unsigned signal,
                 uint64_t grace_ms)
{
    struct span m = { .kind = SPAN_KILL,
                      .v[F_KILL_SIGNAL].u64 = signal,
                      .v[F_KILL_GRACE_MS].u64 = grace_ms };
    size_t n;
    uint32_t *workers = group_workers(g, which, &n);

    for (long k = ranks_next(which, 0); workers && k >= 0; k = ranks_next(which, (unsigned)k + 1))
        if (g->rank[k].worker)
            g->rank[k].state = RANK_STOPPING;
    if (n)
        (void)notebook_send_to(nb, workers, n, &m, NULL);
    group_break(g);
    if (nb->cell && nb->cell->state == CELL_STOPPING)
        judge_killed(nb->cell, grace_ms * NS_PER_MS);
    free(workers);
}

/* ---- the table ---- */

static const char *state_text(const struct rank *r)
{
    static const char *const texts[] = {
        [RANK_NONE] = "not started", [RANK_STARTING] = "starting", [RANK_IDLE] = "idle",
        [RANK_BUSY] = "running",     [RANK_STOPPING] = "stopping", [RANK_DEAD] = "dead",
    };

    return texts[r->state];
}

static void fill(struct notebook *nb, const struct rank *r, struct gauges_text *text,
                 struct status_rank *row)
{
    *row = (struct status_rank){
        .rank = r->number,
        .state = state_text(r),
        .node = r->state == RANK_NONE ? NULL : notebook_node_name(nb, r->node),
        .pid = r->pid,
        .in_cell_ns = r->state == RANK_BUSY ? notebook_now(nb) - r->since_ns : 0,
        .cells = rank_cells(r),
    };
    gauges_row(nb, r, text, row);
}

/* What Python gets: the same rows as a list of dicts. */
static json_t *table_of(const struct status_rank *row, unsigned n)
{
    json_t *table = json_array();

    for (unsigned k = 0; k < n; k++) {
        json_t *one = json_pack("{s:i, s:s, s:s, s:I, s:I, s:f, s:i, s:s?}", "rank",
                                (int)row[k].rank, "state", row[k].state, "node",
                                row[k].node ? row[k].node : "", "pid", (json_int_t)row[k].pid,
                                "memory", (json_int_t)row[k].memory, "in_cell",
                                (double)row[k].in_cell_ns / 1e9, "cells", (int)row[k].cells, "gpu",
                                row[k].gpu);

        if (one && row[k].gpu)
            json_object_update_new(one, json_pack("{s:I, s:I, s:i, s:i}", "gpu_used",
                                                  (json_int_t)row[k].gpu_used, "gpu_total",
                                                  (json_int_t)row[k].gpu_total, "gpu_use",
                                                  row[k].gpu_use, "gpu_others", row[k].gpu_others));
        json_array_append_new(table, one);
    }
    return table;
}

/* Those that belong to the world, and those that live beside it. Who died in a larger one, before
 * this was made afresh, is no concern any more. */
static unsigned shown(const struct group *g)
{
    unsigned n = g->size;

    if (!g->asked)
        return n;
    while (n > g->asked && !g->rank[n - 1].worker)
        n--;
    return n;
}

static int publish_table(struct cell *c, const struct status_rank *row, unsigned n)
{
    struct buf text = BUF_INIT, html = BUF_INIT;
    const char *name = c->nb->group->name;
    int rc = status_text(row, n, name, &text);

    if (rc == 0)
        rc = status_html(row, n, name, &html);

    if (rc == 0)
        publish_json(c->nb, c->request, "display_data",
                     json_pack("{s:{s:s, s:s}, s:{}, s:{}}", "data", "text/plain", text.p,
                               "text/html", html.p, "metadata", "transient"));
    buf_release(&text);
    buf_release(&html);
    return rc;
}

static void show_table(struct cell *c)
{
    struct group *g = c->nb->group;
    const unsigned n = shown(g);
    struct status_rank *row = calloc(n + 1u, sizeof *row);
    struct gauges_text *text = calloc(n + 1u, sizeof *text);

    c->look_ns = NEVER;
    for (unsigned k = 0; row && text && k < n; k++)
        fill(c->nb, &g->rank[k], &text[k], &row[k]);
    if (row && text && c->is_call)
        c->table = table_of(row, n);
    if (!row || !text || (cell_is_shown(c) && publish_table(c, row, n) < 0))
        log_error("cell", "out of memory: no table of ranks");
    free(row);
    free(text);
    finish_now(c);
}

/* The nodes are asked what their ranks hold; the table shows what they said in time. */
static void ask_table(struct cell *c)
{
    c->state = CELL_LOOKING;
    c->look_ns = notebook_now(c->nb) + TABLE_WAIT_NS;
    gauges_ask(c->nb);
    manage_look(c);
}

void manage_look(struct cell *c)
{
    if (c->look_ns == NEVER || c->state != CELL_LOOKING ||
        (gauges_wait(c->nb) && notebook_now(c->nb) < c->look_ns))
        return;
    show_table(c);
}

void manage_gauges(struct notebook *nb, unsigned node, const struct span *m)
{
    gauges_take(nb, node, m);
    if (nb->cell)
        manage_look(nb->cell);
}

/* ---- stop and restart ---- */

/* Which ranks are meant, of those that there are; -1 when that was refused. */
static int choose(struct cell *c, struct ranks *which)
{
    struct err err = { "" };
    struct group *g = c->nb->group;

    if (!c->plan.ranks)
        return group_living(g, which);
    if (g->size && ranks_parse(which, c->plan.ranks, g->size, &err) == 0)
        return 0;
    cell_fail(c, "UsageError", "%s", err.text[0] ? err.text : "there are no ranks yet");
    return -1;
}

static void note_ranks(struct cell *c, const char *what, const struct ranks *which)
{
    struct buf text = BUF_INIT;

    if (ranks_format(which, &text) == 0 && text_shorten(&text, ranks_count(which)) == 0 && text.n)
        stream_note(c, "%s %s: %s", ranks_count(which) > 1 ? "ranks" : "rank", text.p, what);
    buf_release(&text);
}

void manage_stopped(struct cell *c)
{
    if (c->plan.ranks_do == PLAN_RANKS_STOP) {
        note_ranks(c, "stopped", &c->to);
        if (!c->plan.ranks) {
            c->nb->group->asked = 0;
            engine_end(c->nb);
        }
        finish_now(c);
    } else {
        c->world = c->nb->group->asked;
        engine_begin(c);
    }
}

/* Ranks that are missing are started first. */
static void check_there(struct cell *c)
{
    c->world = c->nb->group->asked;
    if (c->world)
        engine_begin(c); /* goes on with check_begin() when all are there */
    else
        cell_fail(c, "UsageError",
                  "%%ranks check: there are no ranks yet (run a %%%%distribute cell first)");
}

void manage_ranks(struct cell *c)
{
    struct err err = { "" };

    if (c->plan.ranks_do == PLAN_RANKS_TABLE) {
        ask_table(c);
        return;
    }
    if (c->plan.ranks_do == PLAN_RANKS_WHERE) {
        where_begin(c);
        return;
    }
    if (stream_open(c, &err) < 0) {
        cell_fail(c, "RuntimeError", "%s", err.text);
        return;
    }
    if (c->plan.ranks_do == PLAN_RANKS_CHECK) {
        check_there(c);
        return;
    }
    if (c->plan.ranks_do == PLAN_RANKS_LOGS) {
        logs_begin(c);
        return;
    }
    if (choose(c, &c->to) < 0)
        return;
    c->state = CELL_STOPPING;
    manage_kill(c->nb, c->nb->group, &c->to, SIGTERM, STOP_GRACE_MS);
    gather_stopped(c);
}
