/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of a group. */
#include "kernel/status/table.h"

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
