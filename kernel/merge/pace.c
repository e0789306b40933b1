/* SPDX-License-Identifier: BSD-3-Clause */
/* The waiting text is divided into a few runs, each of one stream, in the order in which they came.
 * If the streams alternate more often between two messages, further text joins the last run of its
 * stream. So it takes a few messages, not one for each line. */
#include "kernel/merge/pace.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define GAP_NS       (100 * NS_PER_MS)
#define WINDOW_NS    NS_PER_S
#define WINDOW_SENDS 20u
#define MESSAGE_MAX  ((size_t)1 << 20)
#define RUNS_MAX     16u /* bars of eight ranks on stderr, and a line of each on stdout */
/* bytes of a message besides its text: header, parent, metadata, signature */
#define AROUND_MAX 4096u

struct pace_stream {
    struct utf8_stream utf8;
    struct buf text;
    size_t at; /* the text before this offset has left */
};

struct pace_run {
    unsigned which; /* 0, 1: the stream */
    size_t n;       /* bytes of its text */
};

struct pace {
    const struct clock *clock;
    pace_out_f out;
    void *arg;
    struct pace_stream streams[2];
    struct pace_run runs[RUNS_MAX]; /* all waiting text; neighbours are of different streams */
    unsigned n_runs;
    uint64_t sent[WINDOW_SENDS]; /* when the last messages left, a ring */
    uint64_t sends;
};

struct pace *pace_create(const struct clock *clock, pace_out_f out, void *arg, struct err *err)
{
    struct pace *p = calloc(1, sizeof *p);

    if (!p)
        return err_null(err, "out of memory");
    p->clock = clock;
    p->out = out;
    p->arg = arg;
    return p;
}

void pace_destroy(struct pace *p)
{
    if (!p)
        return;
    buf_release(&p->streams[0].text);
    buf_release(&p->streams[1].text);
    free(p);
}

static size_t stream_waiting(const struct pace_stream *s)
{
    return s->text.n - s->at;
}

size_t pace_waiting(const struct pace *p)
{
    return stream_waiting(&p->streams[0]) + p->streams[0].utf8.n + stream_waiting(&p->streams[1]) +
           p->streams[1].utf8.n;
}

static bool full(const struct pace *p)
{
    return stream_waiting(&p->streams[0]) >= MESSAGE_MAX ||
           stream_waiting(&p->streams[1]) >= MESSAGE_MAX;
}

/* When the rate allows the next message. */
static uint64_t window_ns(const struct pace *p)
{
    return p->sends < WINDOW_SENDS ? 0 : p->sent[p->sends % WINDOW_SENDS] + WINDOW_NS;
}

static uint64_t gap_ns(const struct pace *p)
{
    return p->sends ? p->sent[(p->sends - 1) % WINDOW_SENDS] + GAP_NS : 0;
}

uint64_t pace_due_ns(const struct pace *p)
{
    const uint64_t window = window_ns(p);
    const uint64_t gap = gap_ns(p);

    if (stream_waiting(&p->streams[0]) + stream_waiting(&p->streams[1]) == 0)
        return UINT64_MAX;
    return full(p) || window > gap ? window : gap;
}

/* The most bytes that a byte takes in JSON: \u and four digits if it must be escaped. */
static unsigned written_size(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\' ? 1 : 6;
}

/* How many bytes fit into one message, counted as JSON. Prefers to end at a line's end. */
static size_t piece_size(struct slice text)
{
    size_t written = AROUND_MAX;
    size_t line = 0;
    size_t n = 0;

    while (n < text.n) {
        const unsigned more = written_size((unsigned char)text.p[n]);

        if (written + more > MESSAGE_MAX)
            break;
        written += more;
        if (text.p[n++] == '\n')
            line = n;
    }
    if (n == text.n)
        return n;
    return line ? line : utf8_cut(text, n);
}

static void drop_first(struct pace *p, size_t n)
{
    p->runs[0].n -= n;
    if (p->runs[0].n == 0)
        memmove(&p->runs[0], &p->runs[1], --p->n_runs * sizeof p->runs[0]);
}

/* Sends a piece of the first run. It counts as sent even if out() fails, which may have sent it. */
static int send_piece(struct pace *p, uint64_t now)
{
    const unsigned which = p->runs[0].which;
    struct pace_stream *s = &p->streams[which];
    const struct slice all = slice_of(s->text.p + s->at, p->runs[0].n);
    const size_t n = piece_size(all);
    int rc;

    p->sent[p->sends++ % WINDOW_SENDS] = now;
    rc = p->out(p->arg, which + 1, slice_of(all.p, n));
    s->at += n;
    drop_first(p, n);
    if (s->at == s->text.n) {
        if (s->text.cap > MESSAGE_MAX)
            buf_release(&s->text);
        buf_clear(&s->text);
        s->at = 0;
    } else if (s->at >
               MESSAGE_MAX) { /* moves at most as many bytes as have left: linear in total */
        if (s->at >= stream_waiting(s)) {
            buf_drop(&s->text, s->at);
            s->at = 0;
        }
    }
    return rc;
}

/* Sends the runs in their order. whatever: ignore the rate. Until GAP_NS have passed since the last
 * message, it sends only while a stream has enough for a full message. */
static int send_all(struct pace *p, bool whatever, uint64_t now)
{
    const bool gap_over = gap_ns(p) <= now;

    while (p->n_runs > 0) {
        if (!whatever && (window_ns(p) > now || !(gap_over || full(p))))
            return 0;
        if (send_piece(p, now) < 0)
            return -1;
    }
    return 0;
}

/* Records n more waiting bytes of a stream: in its last run, or in a new one at the end. */
static void note(struct pace *p, unsigned which, size_t n)
{
    const bool other_is_last = p->n_runs > 0 && p->runs[p->n_runs - 1].which != which;

    if (n == 0)
        return;
    if (p->n_runs == 0 || (other_is_last && p->n_runs < RUNS_MAX))
        p->runs[p->n_runs++] = (struct pace_run){ which, n };
    else
        p->runs[p->n_runs - 1 - other_is_last].n += n;
}

int pace_tick(struct pace *p, struct err *err)
{
    const uint64_t now = clock_now(p->clock);

    (void)err; /* only out() can fail, and its owner knows why */
    return pace_due_ns(p) <= now ? send_all(p, false, now) : 0;
}

int pace_add(struct pace *p, unsigned stream, struct slice bytes, struct err *err)
{
    const unsigned which = stream == 2;
    struct pace_stream *s = &p->streams[which];
    const size_t before = s->text.n;
    const int rc = utf8_stream_add(&s->utf8, bytes, &s->text);

    note(p, which, s->text.n - before);
    return rc < 0 ? err_set(err, "out of memory") : pace_tick(p, err);
}

/* How many messages a flush may send: what the rate allows, and two more, one for each stream. */
static unsigned allowance(const struct pace *p, uint64_t now)
{
    unsigned recent = 0;

    for (uint64_t k = p->sends > WINDOW_SENDS ? p->sends - WINDOW_SENDS : 0; k < p->sends; k++)
        recent += p->sent[k % WINDOW_SENDS] + WINDOW_NS > now;
    return WINDOW_SENDS + 2 - recent;
}

/* Joins runs of the same stream until at most `most` runs are left. */
static void gather_runs(struct pace *p, unsigned most)
{
    for (; p->n_runs > most; p->n_runs--)
        p->runs[p->n_runs - 3].n += p->runs[p->n_runs - 1].n;
}

int pace_flush(struct pace *p, struct err *err)
{
    const uint64_t now = clock_now(p->clock);

    for (unsigned k = 0; k < 2; k++) {
        const size_t before = p->streams[k].text.n;
        const int rc = utf8_stream_end(&p->streams[k].utf8, &p->streams[k].text);

        note(p, k, p->streams[k].text.n - before);
        if (rc < 0)
            return err_set(err, "out of memory");
    }
    gather_runs(p, allowance(p, now));
    return send_all(p, true, now);
}

void pace_begin_cell(struct pace *p)
{
    p->sends = 0;
}
