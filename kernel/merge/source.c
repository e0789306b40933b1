/* SPDX-License-Identifier: BSD-3-Clause */
/* source.c - turns one stream of one rank into lines and progress bars, as a small terminal does
 * (declared in private.h). */
#include "kernel/merge/private.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for `rows` rows. */
static int reserve(struct source *s, unsigned rows)
{
    const unsigned room = rows < 2 * s->rows_room ? 2 * s->rows_room : rows;
    struct source_row *grown;

    if (rows <= s->rows_room)
        return 0;
    if (!(grown = realloc(s->rows, room * sizeof *grown)))
        return -1;
    for (unsigned i = s->rows_room; i < room; i++)
        grown[i] = (struct source_row){ BUF_INIT, false, 0 };
    s->rows = grown;
    s->rows_room = room;
    return 0;
}

struct source *source_create(unsigned rank, unsigned stream)
{
    struct source *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->rank = rank;
    s->stream = stream;
    s->rows_n = 1;
    s->blank = true;
    if (reserve(s, 4) < 0) {
        free(s);
        return NULL;
    }
    return s;
}

void source_destroy(struct source *s)
{
    if (!s)
        return;
    buf_release(&s->partial);
    buf_release(&s->frame);
    buf_release(&s->behind);
    for (unsigned i = 0; i < s->rows_room; i++)
        buf_release(&s->rows[i].text);
    free(s->rows);
    free(s);
}

/* The size of the escape sequence (ESC [ n LETTER) at the text's start; 0: there is none. *count:
 * its n, or 1 if it has none. */
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

/* Is the text only blanks and erase sequences? With these, programs clear a bar. */
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

/* Writes text to the cursor's row. It ends at a carriage return or, if `up`, at a movement up. */
static int row_add(struct source *s, struct slice part, bool up)
{
    struct buf *row = &s->rows[s->row].text;
    unsigned count;

    if (!part.n)
        return 0;
    for (size_t n = 1; s->returned && n && part.n;) {
        n = escape_size(part, 'K', &count);
        part = slice_of(part.p + n, part.n - n);
    }
    if (s->returned && !part.n && up) {
        s->erased = s->rows[s->row].erased = true;
        s->rows[s->row].erased_ns = s->drawn_ns;
        return 0;
    }
    if (s->returned)
        buf_clear(row);
    s->rows[s->row].erased = false;
    if (!(s->returned && wipes(part)) && buf_add_slice(row, part) < 0)
        return -1;
    s->returned = false;
    return 0;
}

/* Inserts empty rows at the top, for a cursor that moves above the first row. (The lines that were
 * there have already left.) */
static int add_above(struct source *s, unsigned count)
{
    const unsigned most = SOURCE_ROWS - 1 - s->rows_n, n = count < most ? count : most;

    if (reserve(s, s->rows_n + n) < 0)
        return -1;
    for (unsigned i = s->rows_n; n && i-- > 0;) {
        const struct source_row spare = s->rows[i + n]; /* empty, but it may have room */

        s->rows[i + n] = s->rows[i];
        s->rows[i] = spare;
    }
    s->rows_n += n;
    return 0;
}

static int step_up(struct source *s, unsigned count)
{
    const unsigned most = SOURCE_ROWS - 1;

    if (count > s->row && add_above(s, count - s->row) < 0)
        return -1;
    s->row -= count < s->row ? count : s->row;
    s->steps = count < most - s->steps ? s->steps + count : most;
    s->climb = s->climb < s->steps ? s->steps : s->climb;
    s->blank = !s->rows[s->row].text.n;
    return 0;
}

int source_overwrite(struct source *s, struct slice text, uint64_t now)
{
    size_t n = 0;

    s->bar = true;
    s->drawn_ns = now;
    s->untouched = s->untouched && !text.n;
    while (n < text.n) {
        unsigned count = 0;
        const size_t skip = text.p[n] == '\r'
                                ? 1
                                : escape_size(slice_of(text.p + n, text.n - n), 'A', &count);

        if (!skip) {
            n++;
            continue;
        }
        if (row_add(s, slice_of(text.p, n), count > 0) < 0)
            return -1;
        if (count && step_up(s, count) < 0)
            return -1;
        s->returned = true;
        text = slice_of(text.p + n + skip, text.n - n - skip);
        n = 0;
    }
    return row_add(s, text, false);
}

/* The bar's name: the text before its numbers. */
static struct slice bar_name(struct slice text)
{
    const char *percent = memchr(text.p, '%', text.n);
    size_t n = percent ? (size_t)(percent - text.p) : 0;

    if (percent)
        while (n && ((text.p[n - 1] >= '0' && text.p[n - 1] <= '9') || text.p[n - 1] == ' ' ||
                     text.p[n - 1] == '.'))
            n--;
    else
        while (n < text.n && (text.p[n] < '0' || text.p[n] > '9'))
            n++;
    return slice_of(text.p, n);
}

/* Clears the row further down of the bar that is now in this row. */
static void take_from_below(struct source *s)
{
    const struct slice text = buf_slice(&s->rows[s->row].text);

    for (unsigned i = s->row + 1; i < s->rows_n; i++)
        if (s->rows[i].text.n &&
            slice_equal(bar_name(text), bar_name(buf_slice(&s->rows[i].text)))) {
            buf_clear(&s->rows[i].text);
            return;
        }
}

static void row_erase(struct source_row *row)
{
    buf_clear(&row->text);
    row->erased = false;
}

bool source_erase(struct source *s, uint64_t until_ns)
{
    bool were = false, others = false;

    for (unsigned i = 0; s->erased && i < s->rows_n; i++) {
        struct source_row *row = &s->rows[i];

        if (row->erased && row->erased_ns <= until_ns) {
            row_erase(row);
            were = true;
        }
        others |= row->erased;
    }
    s->erased = others;
    return were;
}

uint64_t source_erased_ns(const struct source *s)
{
    uint64_t first = UINT64_MAX;

    for (unsigned i = 0; s->erased && i < s->rows_n; i++)
        if (s->rows[i].erased && s->rows[i].erased_ns < first)
            first = s->rows[i].erased_ns;
    return first;
}

int source_newline(struct source *s)
{
    if (s->rows[s->row].erased)
        row_erase(&s->rows[s->row]);
    if (s->blank && s->rows[s->row].text.n)
        take_from_below(s);
    if (s->row + 1 == s->rows_n) {
        if (reserve(s, s->rows_n + 1) < 0)
            return -1;
        s->rows_n++;
    }
    s->row++;
    s->steps = 0;
    s->returned = s->untouched = true;
    s->blank = !s->rows[s->row].text.n;
    return 0;
}

/* Is there an escape sequence that ends with this letter? Most text has none at all. */
static bool has_escape(struct slice text, char letter)
{
    const char *end = text.p + text.n, *at = text.p;
    unsigned count;

    while (at < end && (at = memchr(at, '\033', (size_t)(end - at)))) {
        if (escape_size(slice_of(at, (size_t)(end - at)), letter, &count))
            return true;
        at++;
    }
    return false;
}

bool source_draws(struct slice text)
{
    return (text.n && memchr(text.p, '\r', text.n)) || has_escape(text, 'A') ||
           has_escape(text, 'K');
}

bool source_goes_up(struct slice text)
{
    return has_escape(text, 'A');
}

void source_shift(struct source *s)
{
    struct source_row first = s->rows[0];

    memmove(s->rows, s->rows + 1, (s->rows_n - 1) * sizeof *s->rows);
    row_erase(&first);
    s->rows[s->rows_n - 1] = first;
    s->rows_n--;
    s->row--;
}

bool source_waits(const struct source *s)
{
    return s->bar && s->row > s->climb;
}

bool source_rests(const struct source *s)
{
    for (unsigned i = s->row; i < s->rows_n; i++)
        if (s->rows[i].text.n)
            return false;
    return s->bar && s->row > 0;
}

bool source_ended(const struct source *s)
{
    return s->over || (source_rests(s) && !s->climb);
}

struct slice source_row(const struct source *s)
{
    return buf_slice(&s->rows[s->row].text);
}

void source_bar_over(struct source *s)
{
    for (unsigned i = 0; i < s->rows_n; i++)
        row_erase(&s->rows[i]);
    s->row = 0;
    s->rows_n = 1;
    s->steps = 0;
    s->blank = true;
    s->bar = false;
    s->returned = s->untouched = s->erased = s->over = false;
}

bool source_shows_bar(const struct source *s)
{
    for (unsigned i = 0; s->bar && i < s->rows_n; i++)
        if (s->rows[i].text.n)
            return true;
    return false;
}

bool source_goes_on(const struct source *s, struct slice part)
{
    bool shows = false;

    for (unsigned i = 0; s->bar && !shows && i < s->rows_n; i++)
        shows = s->rows[i].text.n && !s->rows[i].erased;
    return s->bar && (!part.n || (shows && !source_waits(s)));
}

size_t source_way_down(const struct source *s, struct slice text)
{
    size_t n = 0;

    while (n < text.n && text.p[text.n - n - 1] == '\n')
        n++;
    if (n && (n < text.n || s->partial.n || s->open))
        n--; /* the first newline ends a line */
    return n < SOURCE_ROWS - 1 ? n : 0;
}

void source_unqueue(struct source_queue *q, struct source *s)
{
    if (!s->queued)
        return;
    *(s->prev ? &s->prev->next : &q->first) = s->next;
    *(s->next ? &s->next->prev : &q->last) = s->prev;
    s->prev = s->next = NULL;
    s->queued = false;
}

void source_queue(struct source_queue *q, struct source *s, uint64_t now)
{
    if (s->queued)
        return;
    s->since_ns = now;
    s->prev = q->last;
    *(q->last ? &q->last->next : &q->first) = s;
    q->last = s;
    s->queued = true;
}
