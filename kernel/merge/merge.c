/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of a line:
 * - utf8 repairs invalid UTF-8;
 * - private_modes removes escape sequences that set a terminal's modes;
 * - source keeps the start of a line until its newline, a table until its last row, and a bar's
 *   state;
 * - line_queue keeps lines until equal lines of other ranks come, or a long line has ended;
 * - show adds labels, and keeps other ranks' text out of an unfinished line.
 * If only one rank is shown (a world of one, rank0), passthrough replaces all of these, until the
 * rank draws as on a terminal. */
#include "kernel/merge/merge.h"

#include <stdlib.h>

#include "kernel/merge/private.h"

#define PARTIAL_NS (50 * NS_PER_MS)  /* the start of a line waits this long for its end */
#define BAR_MAX    65536u            /* bytes; a longer row is not a progress bar */
#define BARS_NS    (50 * NS_PER_MS)  /* between two reports of the progress bars */
#define ROW_NS     (250 * NS_PER_MS) /* a bar's finished row waits this long for nested bars below */
#define ERASED_NS                                                                                  \
    (500 * NS_PER_MS) /* a row that was erased is still shown: longer than agents hold             \
                       * the last row of the next state */
#define BEHIND_NS  (150 * NS_PER_MS) /* text waits this long for bars: longer than agents do */
#define BEHIND_MAX 65536u            /* bytes */

static int no_memory(struct err *err)
{
    return err_set(err, "out of memory while output was merged");
}

static int build(struct merge *m, const struct ranks *world)
{
    if (show_init(&m->show, m->out, m->labelled, m->words) < 0)
        return -1;
    if (!(m->sources = calloc(m->sources_n, sizeof(struct source *))))
        return -1;
    for (unsigned k = 0; k < 2; k++)
        if (line_queue_init(&m->queues[k], k + 1, world, m->mode == PLAN_FOLD, &m->show) < 0)
            return -1;
    return 0;
}

struct merge *merge_create(enum plan_merge mode, const struct ranks *world,
                           const struct clock *clock, struct merge_out out, struct err *err)
{
    struct merge *m;

    if (!ranks_count(world))
        return err_null(err, "no ranks to merge the output of");
    if (!(m = calloc(1, sizeof *m))) {
        no_memory(err);
        return NULL;
    }
    *m = (struct merge){ .clock = clock,
                         .out = out,
                         .mode = mode,
                         .words = world->words,
                         .sources_n = (size_t)world->words * 128,
                         .rows_due_ns = UINT64_MAX,
                         .behind_due_ns = UINT64_MAX };
    m->passthrough.rank = -1;
    if (mode == PLAN_RANK0 || (mode != PLAN_PANEL && !out.shared && ranks_count(world) == 1))
        m->passthrough.rank = ranks_next(world, 0);
    m->starts = out.shared ? 0 : LINE_OPEN;
    m->labelled = m->passthrough.rank < 0 && (mode == PLAN_FOLD || mode == PLAN_PREFIX);
    if (build(m, world) < 0) {
        merge_destroy(m);
        no_memory(err);
        return NULL;
    }
    return m;
}

void merge_destroy(struct merge *m)
{
    if (!m)
        return;
    for (size_t i = 0; m->sources && i < m->sources_n; i++)
        source_destroy(m->sources[i]);
    free(m->sources);
    line_queue_release(&m->queues[0]);
    line_queue_release(&m->queues[1]);
    show_release(&m->show);
    buf_release(&m->room);
    buf_release(&m->bare);
    free(m);
}

static struct source *source_get(struct merge *m, unsigned rank, unsigned stream)
{
    struct source **s = &m->sources[2 * rank + stream - 1];

    if (!*s)
        *s = source_create(rank, stream);
    return *s;
}

/* ---- progress bars ---- */

/* The waiting start of the line becomes the first text of the bar. */
static int bar_begin(struct merge *m, struct source *s)
{
    if (s->bar)
        return 0;
    if (s->partial.n && buf_add_slice(&s->rows[s->row].text, buf_slice(&s->partial)) < 0)
        return -1;
    put_clear(m, s);
    s->open = false; /* what is already on the screen stays; the bar is a line of its own */
    return 0;
}

/* A row becomes a line. It is drawn as a bar until the line is shown. */
static int row_leaves(struct merge *m, struct source *s, struct slice text, uint64_t now)
{
    if (!m->bars_left)
        m->bars_next_ns = now + (m->mode == PLAN_FOLD ? EQUAL_NS : 0);
    m->bars_changed = m->bars_left = true;
    return put_line(m, s, text, LINE_BAR, now);
}

/* Rows that a newline ended become lines, except the last `keep` of them. Nested bars that were
 * erased leave no line. */
static int release_rows(struct merge *m, struct source *s, unsigned keep, uint64_t now)
{
    if (!keep)
        m->bars_changed |= source_erase(s, UINT64_MAX);
    while (s->row > keep) {
        const struct slice text = buf_slice(&s->rows[0].text);

        if ((text.n || !s->climb) && row_leaves(m, s, text, now) < 0)
            return -1;
        source_shift(s);
    }
    if (s->bar && (s->rows_n == 1 || !keep) && !source_shows_bar(s))
        source_bar_over(s);
    return 0;
}

/* The bar is over: all its rows become lines. */
static int release_all(struct merge *m, struct source *s, uint64_t now)
{
    if (release_rows(m, s, 0, now) < 0)
        return -1;
    for (unsigned i = 0; s->bar && i < s->rows_n; i++) {
        const struct slice text = buf_slice(&s->rows[i].text);

        if (text.n && row_leaves(m, s, text, now) < 0)
            return -1;
    }
    source_bar_over(s);
    return 0;
}

static void wait_rows(struct merge *m, uint64_t due_ns)
{
    m->rows_due_ns = clock_earlier(m->rows_due_ns, due_ns);
}

/* A row waits for a nested bar below it, which would move the cursor up. If none comes, the row
 * soon becomes a plain line. */
static int bar_newline(struct merge *m, struct source *s, uint64_t now)
{
    unsigned keep = s->climb;

    if (s->untouched && keep <= s->row)
        keep = s->row + 1;
    else if (!keep && !s->returned)
        keep = 1;
    if (source_newline(s) < 0)
        return -1;
    if (keep > s->climb)
        wait_rows(m, now + ROW_NS);
    s->ended_ns = now;
    return release_rows(m, s, keep < SOURCE_ROWS - 1 ? keep : SOURCE_ROWS - 2, now);
}

/* The row is too long for a bar: it becomes the start of a line of text. */
static int bar_too_long(struct merge *m, struct source *s, uint64_t now)
{
    int rc;

    if (release_rows(m, s, 0, now) < 0)
        return -1;
    rc = put_piece(m, s, source_row(s), m->starts, now, now);
    source_bar_over(s);
    return rc;
}

/* Until when the first of its erased rows is shown. */
static uint64_t erased_due_ns(const struct source *s)
{
    return s->erased ? source_erased_ns(s) + ERASED_NS : UINT64_MAX;
}

static bool row_draws(const struct source *s, unsigned flags, struct slice part)
{
    return flags & LINES_PROGRESS || source_draws(part) || source_goes_on(s, part);
}

static int bar_text(struct merge *m, struct source *s, struct slice part, bool newline,
                    uint64_t now)
{
    if (bar_begin(m, s) < 0 || source_overwrite(s, part, now) < 0)
        return -1;
    m->bars_changed = true;
    if (s->erased)
        wait_rows(m, erased_due_ns(s));
    if (newline)
        return bar_newline(m, s, now);
    return source_row(s).n > BAR_MAX ? bar_too_long(m, s, now) : 0;
}

static int empty_rows(struct merge *m, struct source *s, size_t n, uint64_t now)
{
    for (; n; n--)
        if (bar_text(m, s, slice_of("", 0), true, now) < 0)
            return -1;
    return 0;
}

static int plain_lines(struct merge *m, struct source *s, struct slice text, uint64_t now)
{
    const size_t down = source_way_down(s, text);
    const char *newline;

    while (text.n > down && (newline = memchr(text.p, '\n', text.n))) {
        const size_t n = (size_t)(newline - text.p);

        if (put_whole(m, s, slice_of(text.p, n), now) < 0)
            return -1;
        text = slice_of(newline + 1, text.n - n - 1);
    }
    return down ? empty_rows(m, s, down, now) : put_start(m, s, text, now);
}

/* Handles text that contains carriage returns, or that comes while a bar is shown. */
static int bar_lines(struct merge *m, struct source *s, unsigned flags, struct slice text,
                     uint64_t now)
{
    while (text.n) {
        const char *newline = memchr(text.p, '\n', text.n);
        const struct slice part = slice_of(text.p, newline ? (size_t)(newline - text.p) : text.n);

        if (!row_draws(s, flags, part) && release_rows(m, s, 0, now) < 0)
            return -1;
        if (!s->bar && !row_draws(s, flags, part)) {
            if (newline ? put_whole(m, s, part, now) < 0 : put_start(m, s, part, now) < 0)
                return -1;
        } else if (bar_text(m, s, part, newline != NULL, now) < 0)
            return -1;
        text = slice_of(text.p + part.n + (newline != NULL), text.n - part.n - (newline != NULL));
    }
    return 0;
}

/* Until when the source's finished rows wait. */
static uint64_t rows_wait_ns(const struct source *s)
{
    if (s->over)
        return 0;
    return source_waits(s) || source_ended(s) ? s->ended_ns + ROW_NS : UINT64_MAX;
}

/* Is a bar of some rank drawn, or has ended a moment ago? */
static bool some_are_drawn(const struct merge *m, uint64_t now)
{
    for (size_t i = 0; i < m->sources_n; i++) {
        const struct source *s = m->sources[i];

        if (s && source_shows_bar(s) && (!source_ended(s) || rows_wait_ns(s) > now))
            return true;
    }
    return false;
}

/* Turns rows that waited long enough into lines. Bars that have ended stay beside those that are
 * still drawn, so that in the end all are together, by rank. */
static int release_waiting(struct merge *m, uint64_t now)
{
    bool drawn;

    if (now < m->rows_due_ns)
        return 0;
    m->rows_due_ns = UINT64_MAX;
    drawn = some_are_drawn(m, now);
    for (size_t i = 0; i < m->sources_n; i++) {
        struct source *s = m->sources[i];
        uint64_t due;
        int rc = 0;

        if (!s)
            continue;
        if (erased_due_ns(s) <= now)
            m->bars_changed |= source_erase(s, now - ERASED_NS);
        wait_rows(m, erased_due_ns(s));
        due = rows_wait_ns(s);
        if (due <= now && source_ended(s) && drawn)
            due = now + BARS_NS;
        else if (due <= now)
            rc = source_ended(s) ? release_all(m, s, now) : release_rows(m, s, s->climb, now);
        if (rc < 0)
            return -1;
        if (due > now)
            wait_rows(m, due);
    }
    return 0;
}

/* Shows the current state of the bars, at most once in BARS_NS. */
static int report_bars(struct merge *m, uint64_t now)
{
    int rc = 0;

    if (!m->bars_changed || now < m->bars_next_ns)
        return 0;
    buf_clear(&m->room);
    if (bars_write(m->sources, m->sources_n, m->mode == PLAN_FOLD,
                   m->labelled ? &m->show.labels : NULL, &m->room) < 0)
        return -1;
    if (m->room.n || m->bars_shown)
        rc = m->out.progress(m->out.arg, buf_slice(&m->room), m->bars_left);
    m->show.refused = rc < 0;
    m->bars_shown = m->room.n;
    m->bars_changed = m->bars_left = false;
    m->bars_next_ns = now + BARS_NS;
    return rc;
}

/* ---- the functions of merge.h ---- */

static int rank_lines(struct merge *m, struct source *s, unsigned flags, struct slice data,
                      uint64_t now)
{
    struct slice text;

    if (utf8_stream_pass(&s->utf8, data, &m->room, &text) < 0 ||
        private_modes_strip(text, &m->bare, &text) < 0)
        return -1;
    if (s->bar || flags & LINES_PROGRESS || (text.n && memchr(text.p, '\r', text.n)))
        return bar_lines(m, s, flags, text, now);
    return plain_lines(m, s, text, now);
}

/* If out() failed, its owner knows why. Anything else that fails is memory. */
static int result(const struct merge *m, int rc, struct err *err)
{
    return rc < 0 && !m->show.refused ? no_memory(err) : rc;
}

/* Ends every call: shows the lines that are due, and passes the gathered text to out(). */
static int settle(struct merge *m, int rc, uint64_t now, struct err *err)
{
    for (unsigned k = 0; rc == 0 && k < 2; k++)
        rc = line_queue_drain(&m->queues[k], DRAIN_DUE, 0, now);
    if (show_out(&m->show) < 0)
        rc = -1;
    return result(m, rc == 0 ? report_bars(m, now) : rc, err);
}

/* From now on the only rank's text takes all steps, as that of many ranks does. */
static int end_passthrough(struct merge *m)
{
    for (unsigned k = 0; k < 2; k++) {
        struct source *s = source_get(m, (unsigned)m->passthrough.rank, k + 1);

        if (!s)
            return -1;
        s->utf8 = m->passthrough.utf8[k];
    }
    m->passthrough.drawn = true;
    return 0;
}

/* ---- the bars of a rank and its text on the other stream ---- */

static struct source *other_stream(const struct merge *m, unsigned rank, unsigned stream)
{
    return m->sources[2 * rank + (3 - stream) - 1];
}

/* Passes on the text that waits for the bars of its rank's other stream. ended: they have ended, so
 * they come first. */
static int pass_behind(struct merge *m, struct source *s, bool ended, uint64_t now)
{
    struct source *bars = other_stream(m, s->rank, s->stream);
    struct buf text = s->behind;
    int rc = 0;

    if (!text.n)
        return 0;
    s->behind = (struct buf)BUF_INIT;
    m->partial_bytes -= text.n;
    if (ended && bars)
        rc = release_rows(m, bars, 0, now);
    if (rc == 0 && s->stream == 2)
        rc = line_queue_drain(&m->queues[0], DRAIN_RANK, s->rank, now);
    if (rc == 0)
        rc = rank_lines(m, s, 0, buf_slice(&text), now);
    buf_release(&text);
    return rc;
}

/* Bars whose cursor rests have ended, or a nested bar is about to be drawn below them. What the
 * rank draws next tells; until then its text on the other stream waits. */
static int rank_text(struct merge *m, struct source *s, unsigned flags, struct slice data,
                     uint64_t now)
{
    struct source *other = other_stream(m, s->rank, s->stream);

    if (other && pass_behind(m, other, !source_goes_up(data), now) < 0)
        return -1;
    if (!s->behind.n && !(other && source_rests(other)))
        return rank_lines(m, s, flags, data, now);
    if (!s->behind.n)
        s->behind_ns = now;
    if (buf_add_slice(&s->behind, data) < 0)
        return -1;
    m->partial_bytes += data.n;
    m->behind_due_ns = clock_earlier(m->behind_due_ns, s->behind_ns + BEHIND_NS);
    return flags & LINES_PROGRESS || source_draws(data) || s->behind.n > BEHIND_MAX
               ? pass_behind(m, s, true, now)
               : 0;
}

static int pass_due(struct merge *m, uint64_t now)
{
    if (now < m->behind_due_ns)
        return 0;
    m->behind_due_ns = UINT64_MAX;
    for (size_t i = 0; i < m->sources_n; i++) {
        struct source *s = m->sources[i];

        if (!s || !s->behind.n)
            continue;
        if (s->behind_ns + BEHIND_NS > now)
            m->behind_due_ns = clock_earlier(m->behind_due_ns, s->behind_ns + BEHIND_NS);
        else if (pass_behind(m, s, true, now) < 0)
            return -1;
    }
    return 0;
}

int merge_lines(struct merge *m, unsigned rank, unsigned stream, unsigned flags, struct slice data,
                struct err *err)
{
    const uint64_t now = clock_now(m->clock);
    struct source *s;

    if (stream < 1 || stream > 2)
        return err_set(err, "there is no stream %u to merge", stream);
    if (m->passthrough.rank >= 0 && rank != (unsigned)m->passthrough.rank)
        return 0;
    if (passthrough_is_on(&m->passthrough) && private_modes_set(data) && end_passthrough(m) < 0)
        return no_memory(err);
    if (passthrough_is_on(&m->passthrough))
        return result(m, passthrough_lines(&m->passthrough, &m->show, stream, data, &m->room), err);
    if (rank >= m->words * 64)
        return err_set(err, "rank %u prints, but is not of the world that the cell runs in", rank);
    if (!(s = source_get(m, rank, stream)))
        return no_memory(err);
    return settle(m, rank_text(m, s, flags, data, now), now, err);
}

/* The rank of the source prints nothing more. */
static int end_source(struct merge *m, struct source *s, uint64_t now)
{
    if (!source_shows_bar(s))
        return release_all(m, s, now);
    m->bars_changed |= source_erase(s, UINT64_MAX);
    s->over = true;
    m->rows_due_ns = now;
    return 0;
}

enum finish {
    FINISH_LINES, /* bars go on */
    FINISH_RANK,  /* its rank is over */
    FINISH_ALL,   /* all ranks are */
};

/* Passes on what the source holds, without waiting for the rest of a line. */
static int finish_source(struct merge *m, struct source *s, enum finish how, uint64_t now)
{
    struct buf rest = BUF_INIT;
    int rc = 0;

    if (s->utf8.n) {
        rc = utf8_stream_end(&s->utf8, &rest);
        if (rc == 0)
            rc = s->bar ? source_overwrite(s, buf_slice(&rest), now)
                        : put_start(m, s, buf_slice(&rest), now);
        buf_release(&rest);
    }
    if (rc == 0)
        rc = how == FINISH_LINES  ? release_rows(m, s, s->climb, now)
             : how == FINISH_RANK ? end_source(m, s, now)
                                  : release_all(m, s, now);
    return rc < 0 ? -1 : put_partial(m, s, now);
}

static int finish_rank(struct merge *m, unsigned rank, enum finish how, uint64_t now)
{
    struct source *const *s = &m->sources[2 * rank];

    for (unsigned k = 0; k < 2; k++)
        if (s[k] && pass_behind(m, s[k], true, now) < 0)
            return -1;
    for (unsigned k = 0; k < 2; k++)
        if (s[k] && finish_source(m, s[k], how, now) < 0)
            return -1;
    return 0;
}

int merge_rank_over(struct merge *m, unsigned rank, struct err *err)
{
    const uint64_t now = clock_now(m->clock);
    int rc;

    if (passthrough_is_on(&m->passthrough))
        return rank == (unsigned)m->passthrough.rank
                   ? result(m, passthrough_end(&m->passthrough, &m->show, &m->room), err)
                   : 0;
    if (rank >= m->words * 64)
        return 0;
    rc = finish_rank(m, rank, FINISH_RANK, now);
    for (unsigned k = 0; k < 2; k++) {
        fold_rank_over(m->queues[k].fold, rank);
        show_rank_over(&m->show, k + 1, rank);
    }
    return settle(m, rc, now, err);
}

int merge_tick(struct merge *m, struct err *err)
{
    const uint64_t now = clock_now(m->clock);
    int rc = 0;

    while (rc == 0 && m->waits.first && m->waits.first->since_ns + PARTIAL_NS <= now)
        rc = m->starts ? put_partial(m, m->waits.first, now) : put_frame(m, m->waits.first, now);
    if (rc == 0)
        rc = pass_due(m, now);
    if (rc == 0)
        rc = release_waiting(m, now);
    return settle(m, rc, now, err);
}

int merge_flush_rank(struct merge *m, unsigned rank, struct err *err)
{
    const uint64_t now = clock_now(m->clock);
    int rc;

    if (passthrough_is_on(&m->passthrough) || rank >= m->words * 64)
        return 0;
    rc = finish_rank(m, rank, FINISH_LINES, now);
    for (unsigned k = 0; rc == 0 && k < 2; k++)
        rc = line_queue_drain(&m->queues[k], DRAIN_RANK, rank, now);
    m->bars_next_ns = now;
    return settle(m, rc, now, err);
}

int merge_flush(struct merge *m, struct err *err)
{
    const uint64_t now = clock_now(m->clock);
    int rc = 0;

    if (passthrough_is_on(&m->passthrough))
        return result(m, passthrough_end(&m->passthrough, &m->show, &m->room), err);
    for (unsigned rank = 0; rc == 0 && rank < m->sources_n / 2; rank++)
        rc = finish_rank(m, rank, FINISH_ALL, now);
    m->rows_due_ns = m->behind_due_ns = UINT64_MAX;
    for (unsigned k = 0; rc == 0 && k < 2; k++)
        rc = line_queue_drain(&m->queues[k], DRAIN_ALL, 0, now);
    if (show_out(&m->show) < 0)
        rc = -1;
    m->bars_next_ns = now;
    return result(m, rc == 0 ? report_bars(m, now) : rc, err);
}

uint64_t merge_due_ns(const struct merge *m)
{
    uint64_t due = UINT64_MAX;

    if (passthrough_is_on(&m->passthrough))
        return due;
    due = clock_earlier(line_queue_due_ns(&m->queues[0]), line_queue_due_ns(&m->queues[1]));
    due = clock_earlier(due, clock_earlier(m->rows_due_ns, m->behind_due_ns));
    if (m->waits.first)
        due = clock_earlier(due, m->waits.first->since_ns + PARTIAL_NS);
    return m->bars_changed ? clock_earlier(due, m->bars_next_ns) : due;
}

size_t merge_waiting(const struct merge *m)
{
    if (passthrough_is_on(&m->passthrough))
        return m->passthrough.utf8[0].n + m->passthrough.utf8[1].n;
    return fold_bytes(m->queues[0].fold) + fold_bytes(m->queues[1].fold) + m->partial_bytes;
}
