/* The table of a group. */
#include "kernel/status/table.h"

static int heading(size_t n, const char *group, struct buf *out)
{
    char name[TABLE_CELL];

    write_text(name, group);
    if (n == 0)
        return buf_addf(out, "group %s: no ranks", name);
    return buf_addf(out, "group %s: %zu rank%s", name, n, n == 1 ? "" : "s");
}

int status_text(const struct status_rank *rows, size_t n, const char *group, struct buf *out)
{
    if (heading(n, group, out) < 0 || buf_add_text(out, "\n") < 0)
        return -1;
    return n ? table_text(rows, n, VIEW_GROUP, out) : 0;
}

static int html_heading(size_t n, const char *group, struct buf *out)
{
    struct buf text = BUF_INIT;
    int rc = heading(n, group, &text);

    if (rc == 0 &&
        (buf_add_text(out, "<div class=\"cellspan-ranks\">") < 0 || html_add(out, text.p) < 0))
        rc = -1;
    buf_release(&text);
    return rc;
}

int status_html(const struct status_rank *rows, size_t n, const char *group, struct buf *out)
{
    if (html_heading(n, group, out) < 0)
        return -1;
    if (n && (buf_add_text(out, "\n") < 0 || table_html(rows, n, VIEW_GROUP, out) < 0))
        return -1;
    return buf_add_text(out, "</div>\n");
}
