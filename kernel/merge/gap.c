#include "kernel/merge/gap.h"

#include <stdlib.h>
#include <string.h>

#define TAIL_MAX 16384u            /* bytes of the last lines that are shown */
#define CALM_NS  (400 * NS_PER_MS) /* the gap ends when nothing came for so long */
#define SIGN_NS  (10 * NS_PER_S)   /* a gap that lasts shows the last lines so often */

struct gap {
    const struct clock *clock;
    struct page *page; /* borrowed */
    struct gap_out out;
    bool on;
    size_t lines, displays; /* left out and not reported yet */
    unsigned open;          /* the stream whose line is unfinished on the page; 0: none */
    bool cut;               /* part of a line was left out and not reported yet */
    uint64_t since_ns, last_ns;
    struct buf tail;      /* the last text of both streams */
    unsigned char *which; /* owned: the stream of each line of tail, `held` of them */
    size_t held, room;
};

struct gap *gap_create(const struct clock *clock, struct page *page, struct gap_out out)
{
    struct gap *g = calloc(1, sizeof *g);

    if (!g)
        return NULL;
    g->clock = clock;
    g->page = page;
    g->out = out;
    return g;
}

void gap_destroy(struct gap *g)
{
    if (!g)
        return;
    buf_release(&g->tail);
    free(g->which);
    free(g);
}

/* ---- the last lines ---- */

static size_t line_size(struct slice text)
{
    const char *newline = text.n ? memchr(text.p, '\n', text.n) : NULL;

    return newline ? (size_t)(newline - text.p) + 1 : text.n;
}

/* Counts the first line as left out, and returns its size. */
static size_t drop_line(struct gap *g, struct slice text)
{
    const size_t n = line_size(text);

    if (text.p[n - 1] == '\n')
        g->lines++;
    else
        g->cut = true;
    return n;
}

/* Removes the oldest lines until at most TAIL_MAX bytes remain. */
static void trim(struct gap *g)
{
    size_t n = 0, lines = 0;

    for (; g->tail.n - n > TAIL_MAX; lines++)
        n += drop_line(g, slice_of(g->tail.p + n, g->tail.n - n));
    if (!n)
        return;
    buf_drop(&g->tail, n);
    memmove(g->which, g->which + lines, g->held - lines);
    g->held -= lines;
}

static int keep_line(struct gap *g, unsigned stream, struct slice line)
{
    const bool goes_on = g->tail.n && g->tail.p[g->tail.n - 1] != '\n' &&
                         g->which[g->held - 1] == stream;

    if (g->held == g->room) {
        unsigned char *more = realloc(g->which, g->room * 2 + 256);

        if (!more)
            return -1;
        g->which = more;
        g->room = g->room * 2 + 256;
    }
    if (!goes_on && g->tail.n && g->tail.p[g->tail.n - 1] != '\n' &&
        buf_add_text(&g->tail, "\n") < 0)
        return -1;
    if (buf_add_slice(&g->tail, line) < 0)
        return -1;
    if (!goes_on)
        g->which[g->held++] = (unsigned char)stream;
    if (g->tail.n > 4 * TAIL_MAX)
        trim(g);
    return 0;
}

/* Adds text to the tail. Skips most of a large text at once, since only its end can be shown. */
static int keep(struct gap *g, unsigned stream, struct slice text)
{
    while (text.n > 2 * TAIL_MAX) {
        const size_t n = drop_line(g, text);

        text = slice_of(text.p + n, text.n - n);
    }
    while (text.n) {
        const size_t n = line_size(text);

        if (keep_line(g, stream, slice_of(text.p, n)) < 0)
            return -1;
        text = slice_of(text.p + n, text.n - n);
    }
    return 0;
}

/* Consecutive lines of the same stream leave in one message. */
static int show_tail(struct gap *g)
{
    struct slice rest = buf_slice(&g->tail);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < g->held;) {
        const unsigned stream = g->which[i];
        size_t n = 0;

        for (; i < g->held && g->which[i] == stream; i++)
            n += line_size(slice_of(rest.p + n, rest.n - n));
        page_count(g->page, page_size(slice_of(rest.p, n)));
        rc = g->out.text(g->out.arg, stream, slice_of(rest.p, n));
        rest = slice_of(rest.p + n, rest.n - n);
    }
    buf_clear(&g->tail);
    g->held = 0;
    return rc;
}

static int show(struct gap *g)
{
    int rc = 0;

    trim(g);
    if (g->lines || g->displays || g->cut)
        rc = g->out.note(g->out.arg, g->cut && !g->lines ? 1 : g->lines, g->displays);
    g->lines = g->displays = 0;
    g->cut = false;
    return rc < 0 ? rc : show_tail(g);
}

/* ---- what gap.h says ---- */

static void begin(struct gap *g)
{
    if (!g->on)
        g->since_ns = clock_now(g->clock);
    g->on = true;
    g->last_ns = clock_now(g->clock);
}

static int pass(struct gap *g, unsigned stream, struct slice text)
{
    page_count(g->page, page_size(text));
    g->open = text.p[text.n - 1] == '\n' ? 0 : stream;
    return g->out.text(g->out.arg, stream, text);
}

/* A line that has begun on the page is completed first, unless it is very long. */
int gap_text(struct gap *g, unsigned stream, struct slice text)
{
    if (!text.n)
        return 0;
    if (!g->on && page_fits(g->page, PAGE_TEXT, page_size(text)))
        return pass(g, stream, text);
    if (!g->on && g->open == stream && line_size(text) <= TAIL_MAX) {
        const size_t n = line_size(text);

        if (pass(g, stream, slice_of(text.p, n)) < 0)
            return -1;
        text = slice_of(text.p + n, text.n - n);
    }
    begin(g);
    return keep(g, stream, text);
}

bool gap_display(struct gap *g, size_t bytes)
{
    if (page_fits(g->page, PAGE_REST, bytes + (g->on ? 2 * TAIL_MAX : 0)) && gap_flush(g) == 0) {
        page_count(g->page, bytes);
        return true;
    }
    begin(g);
    g->displays++;
    return false;
}

int gap_tick(struct gap *g)
{
    const uint64_t now = clock_now(g->clock);

    if (!g->on || now < gap_due_ns(g))
        return 0;
    if (!page_fits(g->page, PAGE_REST, 2 * TAIL_MAX)) {
        g->last_ns = now;
        return 0;
    }
    if (now - g->last_ns >= CALM_NS)
        return gap_flush(g);
    g->since_ns = now;
    return show(g);
}

int gap_flush(struct gap *g)
{
    if (!g->on)
        return 0;
    g->on = false;
    return show(g);
}

uint64_t gap_due_ns(const struct gap *g)
{
    const uint64_t calm = g->last_ns + CALM_NS, sign = g->since_ns + SIGN_NS;

    return !g->on ? UINT64_MAX : calm < sign ? calm : sign;
}
