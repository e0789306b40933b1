/* source.c - see source.h. */
#include "kernel/merge/source.h"

#include <stdlib.h>
#include <string.h>

struct source *source_create(unsigned rank, unsigned stream)
{
    struct source *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->rank = rank;
    s->stream = stream;
    s->rows_n = 1;
    return s;
}

void source_destroy(struct source *s)
{
    if (!s)
        return;
    buf_release(&s->partial);
    for (unsigned i = 0; i < SOURCE_ROWS; i++)
        buf_release(&s->rows[i]);
    free(s);
}

/* How long the terminal's sequence (ESC [ n LETTER) at the text's start is; 0: there is none. *count: its n, or 1. */
static size_t escape_size(struct slice text, char letter, unsigned *count)
{
    size_t n = 2;

    *count = 0;
    if (text.n < 3 || text.p[0] != '\x1b' || text.p[1] != '[')
        return 0;
    for (; n < text.n && text.p[n] >= '0' && text.p[n] <= '9'; n++)
        *count = *count < 1000 ? *count * 10 + (unsigned)(text.p[n] - '0') : *count;
    if (!*count)
        *count = 1;
    return n < text.n && text.p[n] == letter ? n + 1 : 0;
}

/* Blanks over the old state are how a bar is wiped out. */
static bool wipes(struct slice text)
{
    unsigned count;

    while (text.n) {
        const size_t n = *text.p == ' ' ? 1 : escape_size(text, 'K', &count);

        if (!n)
            return false;
        text = slice_of(text.p + n, text.n - n);
    }
    return true;
}

/* Text up to a carriage return or a step up. */
static int row_add(struct source *s, struct slice part)
{
    struct buf *row = &s->rows[s->row];

    unsigned count;

    if (!part.n)
        return 0;
    if (s->returned)
        buf_clear(row);
    for (size_t n = 1; s->returned && n && part.n;) {
        n = escape_size(part, 'K', &count);
        part = slice_of(part.p + n, part.n - n);
    }
    if (!(s->returned && wipes(part)) && buf_add_slice(row, part) < 0)
        return -1;
    s->returned = false;
    return 0;
}

static void step_up(struct source *s, unsigned count)
{
    const unsigned most = count < SOURCE_ROWS ? count : SOURCE_ROWS - 1;

    s->climb = s->climb < most ? most : s->climb;
    s->row -= count < s->row ? count : s->row;
}

int source_overwrite(struct source *s, struct slice text)
{
    size_t n = 0;

    s->bar = true;
    while (n < text.n) {
        unsigned count = 0;
        const size_t skip = text.p[n] == '\r' ? 1 : escape_size(slice_of(text.p + n, text.n - n), 'A', &count);

        if (!skip) {
            n++;
            continue;
        }
        if (row_add(s, slice_of(text.p, n)) < 0)
            return -1;
        step_up(s, count);
        s->returned = true;
        text = slice_of(text.p + n + skip, text.n - n - skip);
        n = 0;
    }
    return row_add(s, text);
}

void source_newline(struct source *s)
{
    if (++s->row == s->rows_n)
        s->rows_n++;
    s->returned = true;
}

void source_shift(struct source *s)
{
    struct buf first = s->rows[0];

    memmove(s->rows, s->rows + 1, (SOURCE_ROWS - 1) * sizeof *s->rows);
    buf_clear(&first);
    s->rows[SOURCE_ROWS - 1] = first;
    s->rows_n--;
    s->row--;
}

bool source_waits(const struct source *s)
{
    return s->bar && s->row && !s->climb;
}

struct slice source_row(const struct source *s)
{
    return buf_slice(&s->rows[s->row]);
}

void source_bar_over(struct source *s)
{
    for (unsigned i = 0; i < SOURCE_ROWS; i++)
        buf_clear(&s->rows[i]);
    s->row = 0;
    s->rows_n = 1;
    s->bar = false;
    s->returned = false;
}

bool source_shows_bar(const struct source *s)
{
    for (unsigned i = 0; s->bar && i < s->rows_n; i++)
        if (s->rows[i].n)
            return true;
    return false;
}
