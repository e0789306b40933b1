/* SPDX-License-Identifier: BSD-3-Clause */
/* grid.c - writes a small table as plain text and as HTML (declared in status.h). */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rows.h"
#include "base/utf8.h"
#include "kernel/status/status_table.h"

void write_text(char out[static TABLE_CELL], const char *text)
{
    size_t n = 0;

    for (; text && text[n] && n < TABLE_CELL - 1; n++)
        out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? ' ' : text[n];
    out[utf8_cut(slice_text(text), n)] = '\0';
}

void grid_add(struct grid *g, const char *format, ...)
{
    char whole[4096], shown[TABLE_CELL];
    char **cell;
    va_list args;

    va_start(args, format);
    vsnprintf(whole, sizeof whole, format, args);
    va_end(args);
    write_text(shown, whole);
    if (!(cell = rows_add(&g->cell, &g->n, &g->room, sizeof(char *))) || !(*cell = strdup(shown)))
        g->failed = true;
}

void grid_release(struct grid *g)
{
    for (size_t i = 0; i < g->n; i++)
        free(g->cell[i]);
    free(g->cell);
    g->cell = NULL;
    g->n = g->room = 0;
}

static size_t widest(const struct grid *g, size_t column)
{
    size_t most = 0;

    for (size_t i = column; i < g->n; i += g->columns)
        if (utf8_width(slice_text(g->cell[i])) > most)
            most = utf8_width(slice_text(g->cell[i]));
    return most;
}

static int add_blanks(struct buf *out, size_t n)
{
    return n ? buf_addf(out, "%*s", (int)n, "") : 0;
}

static int text_line(const struct grid *g, size_t row, const size_t *width, struct buf *out)
{
    size_t owed = 0; /* blanks to write before the next text, so that no line ends in blanks */
    int rc = 0;

    for (size_t c = 0; rc == 0 && c < g->columns; c++) {
        const char *text = g->cell[row * g->columns + c];
        const size_t left = width[c] - utf8_width(slice_text(text));
        const bool right = g->right && g->right[c];

        if (*text) {
            rc = add_blanks(out, owed + (right ? left : 0)) < 0 || buf_add_text(out, text) < 0 ? -1
                                                                                               : 0;
            owed = (right ? 0 : left) + 2;
        } else {
            owed += width[c] + 2;
        }
    }
    return rc < 0 ? rc : buf_add_text(out, "\n");
}

int grid_text(const struct grid *g, struct buf *out)
{
    size_t *width = calloc(g->columns + 1, sizeof *width);
    int rc = width && !g->failed ? 0 : -1;

    for (size_t c = 0; rc == 0 && c < g->columns; c++)
        width[c] = widest(g, c);
    for (size_t row = 0; rc == 0 && (row + 1) * g->columns <= g->n; row++)
        rc = text_line(g, row, width, out);
    free(width);
    return rc;
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

int grid_html(const struct grid *g, struct buf *out)
{
    int rc = g->failed ? -1 : buf_add_text(out, "<table>\n<thead>");

    for (size_t i = 0; rc == 0 && i < g->n / g->columns * g->columns; i++) {
        const bool head = i < g->columns, last = (i + 1) % g->columns == 0;
        const char *tag = head ? "th" : "td";
        const size_t c = i % g->columns;

        rc = buf_addf(out, "%s<%s style=\"text-align:%s\">", c ? "" : "<tr>", tag,
                      g->right && g->right[c] ? "right" : "left");
        rc = rc < 0 ? rc : html_add(out, g->cell[i]);
        rc = rc < 0 ? rc
                    : buf_addf(out, "</%s>%s%s", tag, last ? "</tr>\n" : "",
                               last && head ? "</thead>\n<tbody>\n" : "");
    }
    return rc < 0 ? rc : buf_add_text(out, "</tbody>\n</table>");
}
