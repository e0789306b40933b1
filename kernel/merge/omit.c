/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/merge/omit.h"

#include <stdlib.h>
#include <string.h>

#define TAIL_MAX 16384u            /* bytes of the last lines that are shown */
#define CALM_NS  (400 * NS_PER_MS) /* all text is shown again when nothing came for this long */
#define SIGN_NS  (10 * NS_PER_S)   /* else the last lines are shown so often */

struct omit {
    const struct clock *clock;
    struct output_limit *limit; /* borrowed */
    struct omit_out out;
    bool on;                /* text is being left out */
    size_t lines, displays; /* left out and not reported yet */
    unsigned open;          /* the stream whose line is unfinished on the page; 0: none */
    bool cut;               /* part of a line was left out and not reported yet */
    uint64_t since_ns, last_ns;
    struct buf tail;      /* the last text of both streams */
    unsigned char *which; /* owned: the stream of each line of tail, `held` of them */
    size_t held, room;
};

struct omit *omit_create(const struct clock *clock, struct output_limit *limit, struct omit_out out)
{
    struct omit *o = calloc(1, sizeof *o);

    if (!o)
        return NULL;
    o->clock = clock;
    o->limit = limit;
    o->out = out;
    return o;
}

void omit_destroy(struct omit *o)
{
    if (!o)
        return;
    buf_release(&o->tail);
    free(o->which);
    free(o);
}

/* ---- the last lines ---- */

static size_t line_size(struct slice text)
{
    const char *newline = text.n ? memchr(text.p, '\n', text.n) : NULL;

    return newline ? (size_t)(newline - text.p) + 1 : text.n;
}

/* Counts the first line as left out, and returns its size. */
static size_t drop_line(struct omit *o, struct slice text)
{
    const size_t n = line_size(text);

    if (text.p[n - 1] == '\n')
        o->lines++;
    else
        o->cut = true;
    return n;
}

/* Removes the oldest lines until at most TAIL_MAX bytes remain. */
static void trim(struct omit *o)
{
    size_t n = 0, lines = 0;

    for (; o->tail.n - n > TAIL_MAX; lines++)
        n += drop_line(o, slice_of(o->tail.p + n, o->tail.n - n));
    if (!n)
        return;
    buf_drop(&o->tail, n);
    memmove(o->which, o->which + lines, o->held - lines);
    o->held -= lines;
}

static int keep_line(struct omit *o, unsigned stream, struct slice line)
{
    const bool goes_on = o->tail.n && o->tail.p[o->tail.n - 1] != '\n' &&
                         o->which[o->held - 1] == stream;

    if (o->held == o->room) {
        unsigned char *more = realloc(o->which, o->room * 2 + 256);

        if (!more)
            return -1;
        o->which = more;
        o->room = o->room * 2 + 256;
    }
    if (!goes_on && o->tail.n && o->tail.p[o->tail.n - 1] != '\n' &&
        buf_add_text(&o->tail, "\n") < 0)
        return -1;
    if (buf_add_slice(&o->tail, line) < 0)
        return -1;
    if (!goes_on)
        o->which[o->held++] = (unsigned char)stream;
    if (o->tail.n > 4 * TAIL_MAX)
        trim(o);
    return 0;
}

/* Adds text to the tail. Skips most of a large text at once, since only its end can be shown. */
static int keep(struct omit *o, unsigned stream, struct slice text)
{
    while (text.n > 2 * TAIL_MAX) {
        const size_t n = drop_line(o, text);

        text = slice_of(text.p + n, text.n - n);
    }
    while (text.n) {
        const size_t n = line_size(text);

        if (keep_line(o, stream, slice_of(text.p, n)) < 0)
            return -1;
        text = slice_of(text.p + n, text.n - n);
    }
    return 0;
}

/* Consecutive lines of the same stream leave in one message. */
static int show_tail(struct omit *o)
{
    struct slice rest = buf_slice(&o->tail);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < o->held;) {
        const unsigned stream = o->which[i];
        size_t n = 0;

        for (; i < o->held && o->which[i] == stream; i++)
            n += line_size(slice_of(rest.p + n, rest.n - n));
        output_limit_count(o->limit, output_limit_size(slice_of(rest.p, n)));
        rc = o->out.text(o->out.arg, stream, slice_of(rest.p, n));
        rest = slice_of(rest.p + n, rest.n - n);
    }
    buf_clear(&o->tail);
    o->held = 0;
    return rc;
}

static int show(struct omit *o)
{
    int rc = 0;

    trim(o);
    if (o->lines || o->displays || o->cut)
        rc = o->out.note(o->out.arg, o->cut && !o->lines ? 1 : o->lines, o->displays);
    o->lines = o->displays = 0;
    o->cut = false;
    return rc < 0 ? rc : show_tail(o);
}

/* ---- what omit.h says ---- */

static void begin(struct omit *o)
{
    if (!o->on)
        o->since_ns = clock_now(o->clock);
    o->on = true;
    o->last_ns = clock_now(o->clock);
}

static int pass(struct omit *o, unsigned stream, struct slice text)
{
    output_limit_count(o->limit, output_limit_size(text));
    o->open = text.p[text.n - 1] == '\n' ? 0 : stream;
    return o->out.text(o->out.arg, stream, text);
}

/* A line that has begun on the page is completed first, unless it is very long. */
int omit_text(struct omit *o, unsigned stream, struct slice text)
{
    if (!text.n)
        return 0;
    if (!o->on && output_limit_fits(o->limit, LIMIT_TEXT, output_limit_size(text)))
        return pass(o, stream, text);
    if (!o->on && o->open == stream && line_size(text) <= TAIL_MAX) {
        const size_t n = line_size(text);

        if (pass(o, stream, slice_of(text.p, n)) < 0)
            return -1;
        text = slice_of(text.p + n, text.n - n);
    }
    begin(o);
    return keep(o, stream, text);
}

bool omit_display(struct omit *o, size_t bytes)
{
    if (output_limit_fits(o->limit, LIMIT_REST, bytes + (o->on ? 2 * TAIL_MAX : 0)) &&
        omit_flush(o) == 0) {
        output_limit_count(o->limit, bytes);
        return true;
    }
    begin(o);
    o->displays++;
    return false;
}

int omit_tick(struct omit *o)
{
    const uint64_t now = clock_now(o->clock);

    if (!o->on || now < omit_due_ns(o))
        return 0;
    if (!output_limit_fits(o->limit, LIMIT_REST, 2 * TAIL_MAX)) {
        o->last_ns = now;
        return 0;
    }
    if (now - o->last_ns >= CALM_NS)
        return omit_flush(o);
    o->since_ns = now;
    return show(o);
}

int omit_flush(struct omit *o)
{
    if (!o->on)
        return 0;
    o->on = false;
    return show(o);
}

uint64_t omit_due_ns(const struct omit *o)
{
    const uint64_t calm = o->last_ns + CALM_NS, sign = o->since_ns + SIGN_NS;

    return !o->on ? UINT64_MAX : calm < sign ? calm : sign;
}

/* ---- torch's frames ----
 *
 * When a cell is stopped, connections of torch.distributed are cut, so that ranks which wait in C++
 * return. torch logs a line about each, and below it dozens of C++ frames, which would stand under
 * the user's error. The line is shown, and the frames are left out: they tell nothing of the user's
 * code. Only frames right below such a line are meant, so what a program writes by itself is shown.
 * The ranks' logs keep all. */

static enum omit_frames frames_after(enum omit_frames last, struct slice line)
{
    /* "[rank1]:[W1127 22:06:31.263391600 TCPStore.cpp:138] [c10d] recvValue failed on …" */
    if ((slice_begins(line, "[W") || slice_begins(line, "[E") || slice_begins(line, "[rank")) &&
        slice_holds(line, ".cpp:") && slice_holds(line, "] [c10d] "))
        return OMIT_FRAMES_MAY_FOLLOW;
    if (last == OMIT_FRAMES_MAY_FOLLOW)
        return slice_begins(line, "Exception raised from ") &&
                       slice_holds(line, "(most recent call first):")
                   ? OMIT_FRAMES_FOLLOW
                   : OMIT_FRAMES_NONE;
    if (last == OMIT_FRAMES_FOLLOW &&
        (slice_begins(line, "frame #") || slice_begins(line, "<omitting python frames>")))
        return OMIT_FRAMES_FOLLOW;
    return OMIT_FRAMES_NONE;
}

struct slice omit_frames(enum omit_frames *last, struct slice text, struct buf *kept)
{
    const char *const end = text.p + text.n;
    struct slice rest = text;

    if (*last == OMIT_FRAMES_NONE && !slice_holds(text, "] [c10d] "))
        return text;
    while (rest.n) {
        const char *const from = rest.p;
        const struct slice line = slice_line(&rest);
        const enum omit_frames was = *last;
        const size_t n = (size_t)((rest.n ? rest.p : end) - from);
        const bool is_end = was == OMIT_FRAMES_FOLLOW && line.n == 0; /* the empty line below */

        *last = frames_after(was, line);
        if (*last != OMIT_FRAMES_FOLLOW && !is_end && buf_add(kept, from, n) < 0)
            return text;
    }
    return buf_slice(kept);
}
