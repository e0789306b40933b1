/* SPDX-License-Identifier: BSD-3-Clause */
/* One list of columns serves both forms. */
#include "kernel/status/status_table.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/utf8.h"

static void rank_of(const struct status_rank *r, char *out)
{
    snprintf(out, TABLE_CELL, "%u", r->rank);
}

static void pid_of(const struct status_rank *r, char *out)
{
    if (r->pid)
        snprintf(out, TABLE_CELL, "%ld", r->pid);
}

void write_size(char out[static TABLE_CELL], uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    double size = (double)bytes / 1024;
    size_t u = 0;

    if (bytes < 1024) {
        snprintf(out, TABLE_CELL, "%u B", (unsigned)bytes);
        return;
    }
    for (; size >= 1000 && u < sizeof units / sizeof units[0] - 1; u++)
        size /= 1024;
    snprintf(out, TABLE_CELL, size < 9.95 ? "%.1f %s" : "%.0f %s", size, units[u]);
}

static void memory_of(const struct status_rank *r, char *out)
{
    if (r->memory)
        write_size(out, r->memory);
}

static void cpu_of(const struct status_rank *r, char *out)
{
    if (r->cpu_known)
        snprintf(out, TABLE_CELL, "%u %%", r->cpu);
}

static void gpu_memory_of(const struct status_rank *r, char *out)
{
    char used[TABLE_CELL], total[TABLE_CELL];

    if (!r->gpu || !r->gpu_total)
        return;
    write_size(used, r->gpu_used);
    write_size(total, r->gpu_total);
    snprintf(out, TABLE_CELL, "%.20s of %.20s", used, total);
}

static void gpu_use_of(const struct status_rank *r, char *out)
{
    if (r->gpu && r->gpu_use >= 0)
        snprintf(out, TABLE_CELL, "%d %%", r->gpu_use);
}

/* "alice's python 68 GiB, 2 more"; just their number if no name is known. */
static void gpu_others_of(const struct status_rank *r, char *out)
{
    char who[TABLE_CELL], size[TABLE_CELL] = "", more[32] = "";

    if (!r->gpu || r->gpu_others <= 0)
        return;
    if (!r->gpu_other) {
        snprintf(out, TABLE_CELL, "%d", r->gpu_others);
        return;
    }
    write_text(who, r->gpu_other);
    if (r->gpu_other_memory)
        write_size(size, r->gpu_other_memory);
    if (r->gpu_others > 1)
        snprintf(more, sizeof more, ", %d more", r->gpu_others - 1);
    snprintf(out, TABLE_CELL, "%.60s%s%.20s%s", who, size[0] ? " " : "", size, more);
}

void write_time(char out[static TABLE_CELL], uint64_t ns)
{
    const unsigned long long s = ns / NS_PER_S;

    if (s >= 3600)
        snprintf(out, TABLE_CELL, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, TABLE_CELL, "%llu:%02llu", s / 60, s % 60);
}

static void time_of(const struct status_rank *r, char *out)
{
    if (r->in_cell_ns)
        write_time(out, r->in_cell_ns);
}

/* "running 0:12" */
static void state_and_time_of(const struct status_rank *r, char *out)
{
    char time[TABLE_CELL];

    write_text(out, r->state);
    if (!r->in_cell_ns)
        return;
    write_time(time, r->in_cell_ns);
    snprintf(out + strlen(out), TABLE_CELL - strlen(out), " %s", time);
}

static void cells_of(const struct status_rank *r, char *out)
{
    snprintf(out, TABLE_CELL, "%u", r->cells);
}

static const struct column {
    const char *name;
    unsigned views;
    bool number; /* aligned right */
    bool always; /* shown even if it is empty for all ranks */
    /* NULL: the cell is the text at this offset in the rank */
    void (*write)(const struct status_rank *r, char *out);
    size_t text;
} columns[] = {
    { "rank", VIEW_GROUP | VIEW_CELL, true, true, rank_of, 0 },
    { "state", VIEW_GROUP, false, true, NULL, offsetof(struct status_rank, state) },
    { "state", VIEW_CELL, false, true, state_and_time_of, 0 },
    { "node", VIEW_GROUP | VIEW_CELL, false, true, NULL, offsetof(struct status_rank, node) },
    { "pid", VIEW_GROUP, true, true, pid_of, 0 },
    { "gpu", VIEW_GROUP | VIEW_CELL, false, false, NULL, offsetof(struct status_rank, gpu) },
    { "gpu memory", VIEW_GROUP | VIEW_CELL, true, false, gpu_memory_of, 0 },
    { "gpu use", VIEW_GROUP | VIEW_CELL, true, false, gpu_use_of, 0 },
    { "others on it", VIEW_GROUP | VIEW_CELL, false, false, gpu_others_of, 0 },
    { "memory", VIEW_GROUP, true, false, memory_of, 0 },
    { "cpu", VIEW_GROUP, true, false, cpu_of, 0 },
    { "in cell", VIEW_GROUP, true, false, time_of, 0 },
    { "cells", VIEW_GROUP, true, true, cells_of, 0 },
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static const char *cell_of(const struct column *c, const struct status_rank *r,
                           char out[static TABLE_CELL])
{
    out[0] = '\0';
    if (c->write)
        c->write(r, out);
    else
        write_text(out, *(const char *const *)((const char *)r + c->text));
    return out;
}

static bool is_shown(const struct column *c, const struct status_rank *rows, size_t n,
                     unsigned view)
{
    char cell[TABLE_CELL];
    bool shown = c->always;

    for (size_t i = 0; i < n && !shown; i++)
        shown = cell_of(c, &rows[i], cell)[0];
    return shown && (c->views & view);
}

static int write_rows(const struct status_rank *rows, size_t n, unsigned view,
                      int (*write)(const struct grid *g, struct buf *out), struct buf *out)
{
    const struct column *shown[COLUMNS];
    bool right[COLUMNS];
    struct grid g = { .right = right };
    char cell[TABLE_CELL];
    int rc;

    for (size_t c = 0; c < COLUMNS; c++)
        if (is_shown(&columns[c], rows, n, view)) {
            right[g.columns] = columns[c].number;
            shown[g.columns++] = &columns[c];
            grid_add(&g, "%s", columns[c].name);
        }
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < g.columns; c++)
            grid_add(&g, "%s", cell_of(shown[c], &rows[i], cell));
    rc = write(&g, out);
    grid_release(&g);
    return rc;
}

int table_text(const struct status_rank *rows, size_t n, unsigned view, struct buf *out)
{
    return write_rows(rows, n, view, grid_text, out);
}

int table_html(const struct status_rank *rows, size_t n, unsigned view, struct buf *out)
{
    return write_rows(rows, n, view, grid_html, out);
}

/* ---- the table of a group ---- */

static int heading(size_t n, const char *title, struct buf *out)
{
    char text[TABLE_CELL];

    write_text(text, title);
    if (n == 0)
        return buf_addf(out, "%s: no ranks", text);
    return buf_addf(out, "%s: %zu rank%s", text, n, n == 1 ? "" : "s");
}

int status_text(const struct status_rank *rows, size_t n, const char *title, struct buf *out)
{
    if (heading(n, title, out) < 0 || buf_add_text(out, "\n") < 0)
        return -1;
    return n ? table_text(rows, n, VIEW_GROUP, out) : 0;
}

static int html_heading(size_t n, const char *title, struct buf *out)
{
    struct buf text = BUF_INIT;
    int rc = heading(n, title, &text);

    if (rc == 0 &&
        (buf_add_text(out, "<div class=\"cellspan-ranks\">") < 0 || html_add(out, text.p) < 0))
        rc = -1;
    buf_release(&text);
    return rc;
}

int status_html(const struct status_rank *rows, size_t n, const char *title, struct buf *out)
{
    if (html_heading(n, title, out) < 0)
        return -1;
    if (n && (buf_add_text(out, "\n") < 0 || table_html(rows, n, VIEW_GROUP, out) < 0))
        return -1;
    return buf_add_text(out, "</div>\n");
}
