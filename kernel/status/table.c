/* One list of columns serves both forms. */
#include "kernel/status/table.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/utf8.h"

void write_text(char out[static TABLE_CELL], const char *text)
{
    size_t n = 0;

    for (; text && text[n] && n < TABLE_CELL - 1; n++)
        out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? ' ' : text[n];
    out[utf8_cut(slice_text(text), n)] = '\0';
}

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

    for (; size >= 1000 && u < sizeof units / sizeof units[0] - 1; u++)
        size /= 1024;
    snprintf(out, TABLE_CELL, size < 9.95 ? "%.1f %s" : "%.0f %s", size, units[u]);
}

static void memory_of(const struct status_rank *r, char *out)
{
    if (r->memory)
        write_size(out, r->memory);
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

/* The width of each column; 0: it is left out. */
static void measure(const struct status_rank *rows, size_t n, unsigned view,
                    size_t width[static COLUMNS])
{
    char cell[TABLE_CELL];

    for (size_t c = 0; c < COLUMNS; c++) {
        width[c] = 0;
        if (!(columns[c].views & view))
            continue;
        width[c] = columns[c].always ? strlen(columns[c].name) : 0;
        for (size_t i = 0; i < n; i++) {
            const size_t w = utf8_width(slice_text(cell_of(&columns[c], &rows[i], cell)));

            if (w > width[c])
                width[c] = w;
        }
        if (width[c] && width[c] < strlen(columns[c].name))
            width[c] = strlen(columns[c].name);
    }
}

int write_blanks(struct buf *out, size_t n)
{
    return n ? buf_addf(out, "%*s", (int)n, "") : 0;
}

/* One line of the text; r NULL: the headings. */
static int text_row(const struct status_rank *r, const size_t width[static COLUMNS],
                    struct buf *out)
{
    char cell[TABLE_CELL];
    size_t owed = 0; /* blanks to write before the next text, so that no line ends in blanks */

    for (size_t c = 0; c < COLUMNS; c++) {
        const char *text = r ? cell_of(&columns[c], r, cell) : columns[c].name;
        const size_t w = utf8_width(slice_text(text));

        if (!width[c])
            continue;
        if (w && columns[c].number)
            owed += width[c] - w;
        if (w && (write_blanks(out, owed) < 0 || buf_add_text(out, text) < 0))
            return -1;
        owed = (w ? (columns[c].number ? 0 : width[c] - w) : owed + width[c]) + 2;
    }
    return buf_add_text(out, "\n");
}

int table_text(const struct status_rank *rows, size_t n, unsigned view, struct buf *out)
{
    size_t width[COLUMNS];

    measure(rows, n, view, width);
    if (text_row(NULL, width, out) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (text_row(&rows[i], width, out) < 0)
            return -1;
    return 0;
}

int html_add(struct buf *out, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '<'    ? "&lt;"
                         : *text == '>'  ? "&gt;"
                         : *text == '&'  ? "&amp;"
                         : *text == '"'  ? "&quot;"
                         : *text == '\'' ? "&#39;"
                                         : NULL;

        if (as ? buf_add_text(out, as) < 0 : buf_add(out, text, 1) < 0)
            return -1;
    }
    return 0;
}

static int html_cell(const char *tag, bool number, const char *text, struct buf *out)
{
    if (buf_addf(out, "<%s style=\"text-align:%s\">", tag, number ? "right" : "left") < 0 ||
        html_add(out, text) < 0)
        return -1;
    return buf_addf(out, "</%s>", tag);
}

static int html_row(const struct status_rank *r, const size_t width[static COLUMNS],
                    struct buf *out)
{
    char cell[TABLE_CELL];

    if (buf_add_text(out, "<tr>") < 0)
        return -1;
    for (size_t c = 0; c < COLUMNS; c++)
        if (width[c] && html_cell(r ? "td" : "th", columns[c].number,
                                  r ? cell_of(&columns[c], r, cell) : columns[c].name, out) < 0)
            return -1;
    return buf_add_text(out, "</tr>\n");
}

int table_html(const struct status_rank *rows, size_t n, unsigned view, struct buf *out)
{
    size_t width[COLUMNS];

    measure(rows, n, view, width);
    if (buf_add_text(out, "<table>\n<thead>") < 0 || html_row(NULL, width, out) < 0 ||
        buf_add_text(out, "</thead>\n<tbody>\n") < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (html_row(&rows[i], width, out) < 0)
            return -1;
    return buf_add_text(out, "</tbody>\n</table>");
}
