/* status.c - see status.h. One list of columns serves both forms. */
#include "kernel/status/status.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"

#define CELL_SIZE 128u

static void write_text(char *out, const char *text)
{
    size_t n = 0;

    for (; text && text[n] && n < CELL_SIZE - 1; n++)
        out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? ' ' : text[n];
    while (text && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) /* cut no character */
        n--;
    out[n] = '\0';
}

static void rank_of(const struct status_rank *r, char *out)
{
    snprintf(out, CELL_SIZE, "%u", r->rank);
}

static void state_of(const struct status_rank *r, char *out)
{
    write_text(out, r->state);
}

static void node_of(const struct status_rank *r, char *out)
{
    write_text(out, r->node);
}

static void pid_of(const struct status_rank *r, char *out)
{
    if (r->pid)
        snprintf(out, CELL_SIZE, "%ld", r->pid);
}

static void gpu_of(const struct status_rank *r, char *out)
{
    write_text(out, r->gpu);
}

static void memory_of(const struct status_rank *r, char *out)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    double size = (double)r->memory / 1024;
    size_t u = 0;

    if (!r->memory)
        return;
    for (; size >= 1000 && u < sizeof units / sizeof units[0] - 1; u++)
        size /= 1024;
    snprintf(out, CELL_SIZE, size < 9.95 ? "%.1f %s" : "%.0f %s", size, units[u]);
}

static void time_of(const struct status_rank *r, char *out)
{
    const unsigned long long s = r->in_cell_ns / NS_PER_S;

    if (!r->in_cell_ns)
        return;
    if (s >= 3600)
        snprintf(out, CELL_SIZE, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, CELL_SIZE, "%llu:%02llu", s / 60, s % 60);
}

static void cells_of(const struct status_rank *r, char *out)
{
    snprintf(out, CELL_SIZE, "%u", r->cells);
}

static const struct column {
    const char *name;
    bool number; /* stands at the right */
    bool always; /* shown also when no rank has anything in it */
    void (*write)(const struct status_rank *r, char *out);
} columns[] = {
    { "rank", true, true, rank_of },     { "state", false, true, state_of }, { "node", false, true, node_of },
    { "pid", true, true, pid_of },       { "gpu", false, false, gpu_of },    { "memory", true, false, memory_of },
    { "in cell", true, false, time_of }, { "cells", true, true, cells_of },
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static const char *cell_of(const struct column *c, const struct status_rank *r, char out[static CELL_SIZE])
{
    out[0] = '\0';
    c->write(r, out);
    return out;
}

/* Characters, not bytes: good enough for names. */
static size_t width_of(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* How wide each column is; 0: it is left out. */
static void measure(const struct status_rank *rows, size_t n, size_t width[static COLUMNS])
{
    char cell[CELL_SIZE];

    for (size_t c = 0; c < COLUMNS; c++) {
        width[c] = columns[c].always ? strlen(columns[c].name) : 0;
        for (size_t i = 0; i < n; i++) {
            const size_t w = width_of(cell_of(&columns[c], &rows[i], cell));

            if (w > width[c])
                width[c] = w;
        }
        if (width[c] && width[c] < strlen(columns[c].name))
            width[c] = strlen(columns[c].name);
    }
}

static int pad(struct buf *out, size_t n)
{
    while (n-- > 0)
        if (buf_add_text(out, " ") < 0)
            return -1;
    return 0;
}

/* One line of the text; r NULL: the headings. */
static int text_row(const struct status_rank *r, const size_t width[static COLUMNS], struct buf *out)
{
    char cell[CELL_SIZE];
    size_t owed = 0; /* blanks that stand only before something: no line ends in them */

    for (size_t c = 0; c < COLUMNS; c++) {
        const char *text = r ? cell_of(&columns[c], r, cell) : columns[c].name;
        const size_t w = width_of(text);

        if (!width[c])
            continue;
        if (w && columns[c].number)
            owed += width[c] - w;
        if (w && (pad(out, owed) < 0 || buf_add_text(out, text) < 0))
            return -1;
        owed = (w ? (columns[c].number ? 0 : width[c] - w) : owed + width[c]) + 2;
    }
    return buf_add_text(out, "\n");
}

static int heading(size_t n, const char *group, struct buf *out)
{
    char name[CELL_SIZE];

    write_text(name, group);
    if (n == 0)
        return buf_addf(out, "group %s: no ranks", name);
    return buf_addf(out, "group %s: %zu rank%s", name, n, n == 1 ? "" : "s");
}

int status_text(const struct status_rank *rows, size_t n, const char *group, struct buf *out)
{
    size_t width[COLUMNS];

    if (heading(n, group, out) < 0 || buf_add_text(out, "\n") < 0)
        return -1;
    if (n == 0)
        return 0;
    measure(rows, n, width);
    if (text_row(NULL, width, out) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (text_row(&rows[i], width, out) < 0)
            return -1;
    return 0;
}

static int add_escaped(struct buf *out, const char *text)
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
    if (buf_addf(out, "<%s style=\"text-align:%s\">", tag, number ? "right" : "left") < 0 || add_escaped(out, text) < 0)
        return -1;
    return buf_addf(out, "</%s>", tag);
}

static int html_row(const struct status_rank *r, const size_t width[static COLUMNS], struct buf *out)
{
    char cell[CELL_SIZE];

    if (buf_add_text(out, "<tr>") < 0)
        return -1;
    for (size_t c = 0; c < COLUMNS; c++)
        if (width[c] &&
            html_cell(r ? "td" : "th", columns[c].number, r ? cell_of(&columns[c], r, cell) : columns[c].name, out) < 0)
            return -1;
    return buf_add_text(out, "</tr>\n");
}

static int html_heading(size_t n, const char *group, struct buf *out)
{
    struct buf text = BUF_INIT;
    int rc = heading(n, group, &text);

    if (rc == 0 && (buf_add_text(out, "<div class=\"cellspan-ranks\">") < 0 || add_escaped(out, text.p) < 0))
        rc = -1;
    buf_release(&text);
    return rc;
}

int status_html(const struct status_rank *rows, size_t n, const char *group, struct buf *out)
{
    size_t width[COLUMNS];

    if (html_heading(n, group, out) < 0)
        return -1;
    if (n == 0)
        return buf_add_text(out, "</div>\n");
    measure(rows, n, width);
    if (buf_add_text(out, "\n<table>\n<thead>") < 0 || html_row(NULL, width, out) < 0 ||
        buf_add_text(out, "</thead>\n<tbody>\n") < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (html_row(&rows[i], width, out) < 0)
            return -1;
    return buf_add_text(out, "</tbody>\n</table></div>\n");
}
