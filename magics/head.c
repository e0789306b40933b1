/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the magic of a cell (declared in option.h). As in IPython, a cell magic must be on the
 * first line that is neither blank nor a comment. */
#include "magics/option.h"

static size_t skip_spaces(struct slice s, size_t at)
{
    while (at < s.n && s.p[at] != '\n' && token_blank(s.p[at]))
        at++;
    return at;
}

/* The end of the line, without its newline. */
static size_t line_end(struct slice cell, size_t at)
{
    const char *newline = at < cell.n ? memchr(cell.p + at, '\n', cell.n - at) : NULL;

    return newline ? (size_t)(newline - cell.p) : cell.n;
}

static bool blank_or_comment(struct slice cell, size_t at, size_t end)
{
    at = skip_spaces(slice_of(cell.p, end), at);
    return at == end || cell.p[at] == '#';
}

/* From `at` on, all lines are blank or comments. */
static bool nothing_follows(struct slice cell, size_t at)
{
    while (at < cell.n) {
        const size_t end = line_end(cell, at);

        if (!blank_or_comment(cell, at, end))
            return false;
        at = end + 1;
    }
    return true;
}

static bool name_char(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* Does the line end in a backslash, so that the line magic continues on the next line? */
static bool joined(struct slice cell, size_t start, size_t end)
{
    size_t slashes = 0;

    if (end == cell.n)
        return false;
    if (end > start && cell.p[end - 1] == '\r')
        end--;
    while (end > start && cell.p[end - 1] == '\\') {
        slashes++;
        end--;
    }
    return slashes % 2 == 1;
}

/* Reads "%name", "%%name", "?%name" or "%name?" at h->at; the name must be a whole word. */
static int head_read(struct slice cell, struct head *h)
{
    size_t at = skip_spaces(cell, h->at);
    size_t name;

    for (h->help = false; at < cell.n && cell.p[at] == '?'; at++)
        h->help = true;
    if (at >= cell.n || cell.p[at] != '%')
        return 0;
    at++;
    h->cell = at < cell.n && cell.p[at] == '%';
    at += h->cell;
    for (name = at; at < cell.n && name_char(cell.p[at]); at++)
        ;
    h->magic = magic_find(slice_of(cell.p + name, at - name));
    if (!h->magic || (h->cell && !h->magic->cell))
        return 0;
    for (; at < cell.n && cell.p[at] == '?'; at++)
        h->help = true;
    if (at < cell.n && !token_blank(cell.p[at]))
        return 0;
    h->end = line_end(cell, at);
    while (!h->cell && joined(cell, at, h->end))
        h->end = line_end(cell, h->end + 1);
    h->line = slice_of(cell.p + at, h->end - at);
    if (h->help && skip_spaces(h->line, 0) < h->line.n)
        return 0;
    return 1;
}

static unsigned count_lines(struct slice s)
{
    unsigned n = 0;

    for (size_t at = 0; at < s.n; n++) {
        at = line_end(s, at);
        if (at++ == s.n)
            break;
    }
    return n;
}

static void head_body(struct slice cell, struct head *h)
{
    const size_t start = h->end < cell.n ? h->end + 1 : cell.n;

    h->body = slice_of(cell.p + start, cell.n - start);
    h->lines_above = count_lines(slice_of(cell.p, start));
}

int head_find(struct slice cell, struct head *h)
{
    *h = (struct head){ 0 };
    while (h->at < cell.n) {
        const size_t end = line_end(cell, h->at);

        if (!blank_or_comment(cell, h->at, end))
            break;
        h->at = end + 1;
    }
    if (h->at >= cell.n || token_blank(cell.p[h->at]) || !head_read(cell, h))
        return 0;
    head_body(cell, h);
    return (h->cell && !h->help) || nothing_follows(h->body, 0);
}

/* Are all lines above blank, comments, or other cell magics directly above? */
static bool below_magics(struct slice cell, size_t at)
{
    for (size_t line = 0; line < at; line = line_end(cell, line) + 1)
        if (!blank_or_comment(cell, line, line_end(cell, line)) &&
            !(line + 1 < at && memcmp(cell.p + line, "%%", 2) == 0))
            return false;
    return true;
}

int head_at(struct slice cell, size_t at, struct head *h)
{
    if (at > cell.n)
        return 0;
    if (head_find(cell, h) && at >= h->at && at <= h->end)
        return 1;
    *h = (struct head){ 0 };
    for (h->at = at; h->at > 0 && cell.p[h->at - 1] != '\n'; h->at--)
        ;
    return head_read(cell, h) && (!h->cell || below_magics(cell, h->at)) && at <= h->end;
}
