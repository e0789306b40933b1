/* SPDX-License-Identifier: BSD-3-Clause */
/* %ranks: the table of ranks and their states. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "config.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/idle_release.h"
#include "kernel/cell/live_status.h"
#include "kernel/ranks/ranks.h"
#include "kernel/status/status.h"

#define TABLE_WAIT_NS (1 * NS_PER_S) /* time limit for the nodes' answers about memory and GPUs */

static void fill(struct notebook *nb, const struct rank *r, struct rank_usage_text *text,
                 struct status_rank *row)
{
    *row = (struct status_rank){
        .rank = r->number,
        .state = rank_state_text(r->state),
        .node = r->state == RANK_NONE ? NULL : notebook_node_name(nb, r->node),
        .pid = r->pid,
        .in_cell_ns = r->state == RANK_BUSY ? notebook_now(nb) - r->since_ns : 0,
        .cells = rank_cells(r),
    };
    rank_usage_row(nb, r, text, row);
    if (row->suspended && rank_alive(r))
        row->state = "suspended"; /* as no rank at a breakpoint is */
    if (rank_alive(r) && parking_text(r->parking))
        row->state = parking_text(r->parking);
    if (rank_alive(r) && away_node_is(nb, r->node))
        row->state = "away";
}

/* The same rows for Python: a list of dicts. */
static json_t *table_of(const struct status_rank *row, unsigned n)
{
    json_t *table = json_array();

    for (unsigned k = 0; k < n; k++) {
        json_t *one = json_pack("{s:i, s:s, s:s, s:I, s:I, s:i, s:f, s:i, s:s?}", "rank",
                                (int)row[k].rank, "state", row[k].state, "node",
                                row[k].node ? row[k].node : "", "pid", (json_int_t)row[k].pid,
                                "memory", (json_int_t)row[k].memory, "cpu",
                                row[k].cpu_known ? (int)row[k].cpu : -1, "in_cell",
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

struct rows {
    struct status_rank *of; /* owned, n of them; NULL: memory is out */
    struct rank_usage_text *text;
    unsigned n;
};

static struct rows rows_of(struct notebook *nb, const struct group *g)
{
    struct rows rows = { .n = group_listed(g) };

    rows.of = calloc(rows.n + 1u, sizeof *rows.of);
    rows.text = calloc(rows.n + 1u, sizeof *rows.text);
    for (unsigned k = 0; rows.of && rows.text && k < rows.n; k++)
        fill(nb, &g->rank[k], &rows.text[k], &rows.of[k]);
    return rows;
}

static void rows_free(struct rows *rows)
{
    free(rows->of);
    free(rows->text);
}

static int add_table(const struct rows *rows, const char *title, struct buf *text, struct buf *html)
{
    return !rows->of || !rows->text || status_text(rows->of, rows->n, title, text) < 0 ||
                   status_html(rows->of, rows->n, title, html) < 0
               ? -1
               : 0;
}

/* "2 slots", "3 machines": what the group's engine has, and has not lost. */
static void write_held(const struct notebook *nb, char out[static 40])
{
    unsigned slots = 0, nodes = 0;
    bool all = true;

    GROUP_NODES_EACH (node, group_nodes_of(nb)) {
        const struct node *info = node->lost ? NULL : nb->ops.node(nb->ops.arg, node->number);

        if (!info)
            continue;
        nodes++;
        slots += info->slots;
        all = all && info->slots;
    }
    snprintf(out, 40, "%u %s%s", all ? slots : nodes, all ? "slot" : "machine",
             (all ? slots : nodes) == 1 ? "" : "s");
}

/* An engine that was started for ranks stays when they have ended, as after a call in fresh
 * processes: the next ones come quickly, but others wait for its slots meanwhile. */
static int add_held(const struct notebook *nb, struct buf *text, struct buf *html)
{
    const struct group *g = nb->group;
    struct ranks living = RANKS_INIT;
    char held[40], since[16];
    struct buf line = BUF_INIT;
    int rc = group_living(g, &living);

    if (rc == 0 && g->on && g->engine && g->up_ns && !ranks_count(&living)) {
        write_held(nb, held);
        cell_time_of_day(nb, g->up_ns, since);
        if (buf_addf(&line, "--on %.200s holds %s since %s: %%ranks stop frees them\n", g->on, held,
                     since) < 0 ||
            buf_add(text, line.p, line.n) < 0 || buf_add_text(html, "<div>") < 0 ||
            html_add(html, line.p) < 0 || buf_add_text(html, "</div>\n") < 0)
            rc = -1;
    }
    buf_release(&line);
    ranks_release(&living);
    return rc;
}

/* beside: the ranks of the script or cell that runs beside the group; n is 0 where none does. */
static int publish_tables(struct cell *c, const struct rows *group, const struct rows *beside)
{
    const struct cell *runs = c->nb->cells; /* one with ranks of its own runs alone */
    struct buf text = BUF_INIT, html = BUF_INIT;
    char title[80];
    int rc;

    snprintf(title, sizeof title, "group %.64s", c->nb->group->name);
    rc = add_table(group, title, &text, &html) < 0 ? -1 : add_held(c->nb, &text, &html);
    snprintf(title, sizeof title, "beside it, in cell %u", runs ? runs->from.count : 0);
    if (rc == 0 && beside->n)
        rc = add_table(beside, title, &text, &html);
    if (rc == 0)
        output_mime(c, buf_slice(&text), buf_slice(&html), NULL, NULL);
    buf_release(&text);
    buf_release(&html);
    return rc;
}

static struct rows rows_beside(struct notebook *nb)
{
    const struct group *beside = notebook_shown(nb);

    return beside == nb->group ? (struct rows){ .n = 0 } : rows_of(nb, beside);
}

/* The table as {"ranks", "beside", "on"}, from what nodes have said so far; NULL: memory is out. */
static json_t *table_json(struct notebook *nb)
{
    struct rows rows = rows_of(nb, nb->group), more = rows_beside(nb);
    json_t *table = NULL;

    if (rows.of && rows.text)
        table = json_pack("{s:o, s:o, s:s?}", "ranks", table_of(rows.of, rows.n), "beside",
                          table_of(more.of, more.of && more.text ? more.n : 0), "on",
                          nb->group->on);
    rows_free(&rows);
    rows_free(&more);
    return table;
}

/* Shows the table, or keeps it for the RETURN of a call. */
static void show_table(struct cell *c)
{
    struct rows rows = rows_of(c->nb, c->nb->group), more = rows_beside(c->nb);

    if (c->from.is_call)
        c->magic.table = table_json(c->nb);
    if (!rows.of || !rows.text || (cell_is_shown(c) && publish_tables(c, &rows, &more) < 0))
        log_error("cell", "out of memory: no table of ranks");
    rows_free(&rows);
    rows_free(&more);
}

static bool is_measured(const struct cell *c)
{
    return !(c->from.call_flags & CALL_UNMEASURED);
}

/* Asks the nodes for memory and GPUs; the table shows the answers that come in time. */
void rank_table_begin(struct cell *c)
{
    cell_limit_step(c, notebook_now(c->nb) + TABLE_WAIT_NS);
    if (is_measured(c))
        rank_usage_ask(c->nb);
}

enum cell_outcome rank_table_poll(struct cell *c)
{
    if (is_measured(c) && rank_usage_wait(c->nb) && c->now.due_ns != NEVER)
        return CELL_STAYS;
    show_table(c);
    return CELL_DONE;
}

const struct cell_step cell_table = { CELL_BEFORE, .begin = rank_table_begin,
                                      .poll = rank_table_poll };

/* ---- the answer to cellspan_overview_request ---- */

/* `cellspan ps` asks what runs here. The answer comes at once, from what the kernel knows already:
 * no node is asked, and no cell is waited for. */

static double seconds_since(const struct notebook *nb, uint64_t ns)
{
    return (double)(notebook_now(nb) - ns) / (double)NS_PER_S;
}

/* When the first of the cell's ranks that still run it began; 0: none runs it. */
static uint64_t cell_since(const struct cell *c)
{
    uint64_t since = 0;

    for (size_t k = 0; k < c->n; k++) {
        const struct rank *r = &c->group->rank[c->member[k].rank];

        if (c->member[k].state == MEMBER_RUNNING && (!since || r->since_ns < since))
            since = r->since_ns;
    }
    return since;
}

/* The cell on ranks that has run longest; null: there is none. Its text is not shown. */
static json_t *running(const struct notebook *nb)
{
    const struct cell *c = nb->cells;
    uint64_t since;

    if (!c)
        return json_null();
    since = cell_since(c);
    return json_pack("{s:i, s:f}", "count", (int)c->from.count, "seconds",
                     since ? seconds_since(nb, since) : 0.0);
}

void rank_table_overview(struct notebook *nb, struct request *r)
{
    const bool home = nb->home.executing != NULL;
    const double idle = (double)idle_release_idle(nb, notebook_now(nb)) / (double)NS_PER_S;

    reply_json(nb, r, "cellspan_overview_reply",
               json_pack("{s:s, s:s, s:s?, s:s?, s:b, s:f, s:o, s:i, s:i, s:o}", "status", "ok",
                         "version", PACKAGE_VERSION, "python", nb->config.python_version, "cwd",
                         nb->home.cwd, "home_runs", home, "idle", idle, "cell", running(nb),
                         "waiting", (int)nb->queue.n, "gpus", (int)nb->group->gpus, "table",
                         table_json(nb)));
}
