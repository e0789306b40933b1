/* SPDX-License-Identifier: BSD-3-Clause */
/* The last lines of one tab. Where the stream changes, a mark (a byte that never occurs in UTF-8)
 * names the stream of the following text. */
#include <string.h>

#include "base/utf8.h"
#include "kernel/merge/panel_private.h"

#define MARK_OF(stream) ((char)((stream) == 2 ? 0xfe : 0xff))
#define ANSI_COST       170u /* bytes of a span in JSON at most, see ansi.c */
#define MARK_COST       64u  /* bytes of what stands around text of stderr */

static unsigned stream_of(char c)
{
    return (unsigned char)c == 0xfe ? 2 : (unsigned char)c == 0xff ? 1 : 0;
}

void tab_lines_release(struct tab_lines *t)
{
    buf_release(&t->text);
}

void tab_lines_clear(struct tab_lines *t)
{
    buf_clear(&t->text);
    t->lines = 0;
    t->first = t->last = 0;
}

static size_t newlines(const char *p, size_t n)
{
    const char *end = p + n;
    size_t lines = 0;

    while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
        lines++;
        p++;
    }
    return lines;
}

/* The position at or after `at` where the text may be cut: after a newline, else at the start of a
 * character. */
static size_t cut(struct slice text, size_t at)
{
    const char *newline = memchr(text.p + at, '\n', text.n - at);

    if (at == 0 || text.p[at - 1] == '\n')
        return at;
    if (newline && (size_t)(newline - text.p) + 1 < text.n)
        return (size_t)(newline - text.p) + 1;
    while (at < text.n && utf8_continues(text.p[at]))
        at++;
    return at;
}

/* The stream of the byte at this offset. */
static unsigned stream_at(const struct tab_lines *t, size_t at)
{
    while (at-- > 0)
        if (stream_of(t->text.p[at]))
            return stream_of(t->text.p[at]);
    return t->first;
}

static void trim(struct tab_lines *t)
{
    const size_t n = cut(buf_slice(&t->text), t->text.n - t->keep);

    t->first = stream_at(t, n);
    t->lines += newlines(t->text.p, n);
    buf_drop(&t->text, n);
}

int tab_lines_add(struct tab_lines *t, unsigned stream, struct slice text)
{
    const char mark = MARK_OF(stream);

    if (text.n > t->keep) { /* its start could not be shown */
        const size_t n = cut(text, text.n - t->keep);

        t->lines += newlines(text.p, n) + (t->text.n ? newlines(t->text.p, t->text.n) : 0);
        buf_clear(&t->text);
        t->last = 0;
        text = slice_of(text.p + n, text.n - n);
    }
    if (!text.n)
        return 0;
    if (!t->last)
        t->first = t->last = stream;
    if (t->last != stream && buf_add(&t->text, &mark, 1) < 0)
        return -1;
    t->last = stream;
    if (buf_add_slice(&t->text, text) < 0)
        return -1;
    if (t->text.n > 2 * t->keep)
        trim(t);
    return 0;
}

/* ---- how it is written ---- */

/* The most bytes that this byte takes in JSON. */
static size_t cost(unsigned char c, bool html)
{
    if (c >= 0xfe)
        return html ? MARK_COST : 3;
    if (c == '\033')
        return html ? ANSI_COST : 6;
    if (c < ' ' || c == '"' || c == '\\')
        return c == '\n' || c >= ' ' ? 2 : 6;
    return html && (c == '<' || c == '>' || c == '&') ? 5 : 1;
}

/* Where the last lines start that fit. */
static size_t start_of(const struct tab_lines *t, size_t most, bool html)
{
    size_t at = t->text.n, sum = 0;

    while (at > 0 && (sum += cost((unsigned char)t->text.p[at - 1], html)) <= most)
        at--;
    return cut(buf_slice(&t->text), at);
}

/* The size of the text up to the next mark. */
static size_t piece(struct slice text)
{
    size_t n = 0;

    while (n < text.n && !stream_of(text.p[n]))
        n++;
    return n;
}

static int add_piece(struct buf *out, unsigned stream, struct slice text, bool html)
{
    if (!html)
        return buf_add_slice(out, text);
    if (stream == 2 && buf_add_text(out, "<span class=\"cellspan-err\">") < 0)
        return -1;
    if (ansi_html(text, out) < 0)
        return -1;
    return stream == 2 ? buf_add_text(out, "</span>") : 0;
}

/* The text of each stream begins on a line of its own. */
static int add_all(const struct tab_lines *t, size_t from, bool html, struct buf *out)
{
    struct slice rest = slice_of(t->text.p + from, t->text.n - from);
    unsigned stream = stream_at(t, from);

    while (rest.n) {
        const size_t n = piece(rest);

        if (n && add_piece(out, stream, slice_of(rest.p, n), html) < 0)
            return -1;
        if (n < rest.n) {
            stream = stream_of(rest.p[n]);
            if (n && rest.p[n - 1] != '\n' && buf_add_text(out, "\n") < 0)
                return -1;
        }
        rest = slice_of(rest.p + n + (n < rest.n), rest.n - n - (n < rest.n));
    }
    return 0;
}

int tab_lines_html(const struct tab_lines *t, size_t most, struct buf *out, size_t *earlier)
{
    const size_t from = t->text.n ? start_of(t, most, true) : 0;

    *earlier = t->lines + (from ? newlines(t->text.p, from) : 0);
    return t->text.n ? add_all(t, from, true, out) : 0;
}

int tab_lines_plain(const struct tab_lines *t, size_t most, struct buf *out)
{
    return t->text.n ? add_all(t, start_of(t, most, false), false, out) : 0;
}
