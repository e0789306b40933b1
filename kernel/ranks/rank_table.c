/* %ranks: the table of ranks and their states. */
#include <stdlib.h>

#include "base/log.h"
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
}

/* The same rows for Python: a list of dicts. */
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

/* How many rows: the ranks of the world, and living ranks beyond it. Dead ranks beyond the world
 * are not shown, nor those of a world that was stopped. */
static unsigned shown(const struct group *g)
{
    unsigned n = g->size;

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
        output_bundle(c, buf_slice(&text), buf_slice(&html), NULL, NULL);
    buf_release(&text);
    buf_release(&html);
    return rc;
}

static void show_table(struct cell *c)
{
    struct group *g = c->nb->group;
    const unsigned n = shown(g);
    struct status_rank *row = calloc(n + 1u, sizeof *row);
    struct rank_usage_text *text = calloc(n + 1u, sizeof *text);

    for (unsigned k = 0; row && text && k < n; k++)
        fill(c->nb, &g->rank[k], &text[k], &row[k]);
    if (row && text && c->from.is_call)
        c->magic.table = table_of(row, n);
    if (!row || !text || (cell_is_shown(c) && publish_table(c, row, n) < 0))
        log_error("cell", "out of memory: no table of ranks");
    free(row);
    free(text);
}

/* Asks the nodes for memory and GPUs; the table shows the answers that come in time. */
static void rank_table_begin(struct cell *c)
{
    cell_limit_step(c, notebook_now(c->nb) + TABLE_WAIT_NS);
    rank_usage_ask(c->nb);
}

static enum cell_outcome rank_table_look(struct cell *c)
{
    if (rank_usage_wait(c->nb) && c->now.due_ns != NEVER)
        return CELL_STAYS;
    show_table(c);
    return CELL_DONE;
}

const struct cell_step cell_table = { CELL_BEFORE, .begin = rank_table_begin,
                                      .look = rank_table_look };
