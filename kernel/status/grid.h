/* grid.h - writes a small table of texts as plain text and as HTML. Pure. */
#ifndef KERNEL_STATUS_GRID_H
#define KERNEL_STATUS_GRID_H

#include <stdbool.h>

#include "base/buf.h"

struct grid {
    size_t columns;
    const bool *right; /* borrowed: for each column, is it aligned right? NULL: none is */
    char **cell;       /* owned, n of them: row after row, the headings first */
    size_t n;
    bool failed; /* memory was out in grid_add: writing will fail */
};

void grid_add(struct grid *g, const char *format, ...) PRINTF_LIKE(2, 3); /* the next cell */
void grid_release(struct grid *g);
MUST_USE int grid_text(const struct grid *g, struct buf *out);
MUST_USE int grid_html(const struct grid *g, struct buf *out);
/* Appends text, escaped for HTML. */
MUST_USE int grid_escape(struct buf *out, const char *text);

#endif
