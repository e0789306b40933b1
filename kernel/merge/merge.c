/* The steps of a line:
 * - utf8 repairs invalid UTF-8;
 * - screen removes escape sequences that set a terminal's modes;
 * - source keeps the start of a line until its newline, a table until its last row, and a bar's
 *   state;
 * - line_queue keeps lines until equal lines of other ranks come, or a long line has ended;
 * - show adds labels, and keeps other ranks' text out of an unfinished line.
 * If only one rank is shown (a world of one, rank0), passthrough replaces all of these, until the
 * rank draws as on a terminal. */
#include "kernel/merge/merge.h"

#include <stdlib.h>

#include "kernel/merge/private.h"

#define EQUAL_NS    (100 * NS_PER_MS) /* a line waits so long for equal lines of other ranks */
#define PARTIAL_NS  (50 * NS_PER_MS)  /* the start of a line waits so long for its end */
#define PARTIAL_MAX 8192u             /* bytes; a longer start of a line does not wait */
#define SHARED_MAX  65536u /* the same for all ranks together, if others show lines, too */
#define BAR_MAX     65536u /* bytes; a longer row is not a progress bar */
#define BARS_NS     (50 * NS_PER_MS)  /* between two reports of the progress bars */
#define ROW_NS      (250 * NS_PER_MS) /* a bar's finished row waits so long for nested bars below */

struct merge {
    const struct clock *clock;
    struct merge_out out;
    enum plan_merge mode;
    bool labelled;
    struct passthrough passthrough;
    unsigned words;
    struct show show;            /* if only one rank is shown, only `refused` is used */
    struct line_queue queues[2]; /* by stream */
    struct source **sources;     /* 2 * rank + stream - 1; NULL until it prints */
    size_t sources_n;
    struct source_queue waits; /* sources whose partial or frame waits */
    size_t partial_bytes;      /* of partials and frames */
    unsigned starts;           /* flags of the start of a line that is shown; 0: none is */
    /* of one call: repaired text, or the bars; text without a terminal's modes */
    struct buf room, bare;
    bool bars_changed, bars_shown;      /* since the last report; it was not empty */
    uint64_t bars_next_ns, rows_due_ns; /* UINT64_MAX: no finished row of a bar waits */
};

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
                         .rows_due_ns = UINT64_MAX };
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

/* ---- the start of a line waits for its end ---- */

static void partial_clear(struct merge *m, struct source *s)
{
    m->partial_bytes -= s->partial.n;
    if (s->partial.cap > 4 * (size_t)PARTIAL_MAX)
        buf_release(&s->partial);
    buf_clear(&s->partial);
    if (!s->frame.n)
        source_unqueue(&m->waits, s);
}

static uint64_t equal_due_ns(const struct merge *m, uint64_t now)
{
    return m->mode == PLAN_FOLD ? now + EQUAL_NS : now;
}

/* Passes the rows of the frame on, as one line of the queue. */
static int put_frame(struct merge *m, struct source *s, uint64_t now)
{
    const struct slice rows = buf_slice(&s->frame);
    int rc;

    if (!rows.n)
        return 0;
    rc = line_queue_put(&m->queues[s->stream - 1], s->rank, rows,
                        memchr(rows.p, '\n', rows.n) ? LINE_FRAME : 0, equal_due_ns(m, now), now);
    m->partial_bytes -= rows.n;
    if (s->frame.cap > 4 * (size_t)PARTIAL_MAX)
        buf_release(&s->frame);
    buf_clear(&s->frame);
    if (!s->partial.n || !m->starts)
        source_unqueue(&m->waits, s);
    return rc;
}

static int put(struct merge *m, struct source *s, struct slice text, unsigned flags,
               uint64_t due_ns, uint64_t now)
{
    if (put_frame(m, s, now) < 0)
        return -1;
    if (s->open)
        flags |= LINE_CONT;
    s->open = flags & LINE_OPEN;
    return line_queue_put(&m->queues[s->stream - 1], s->rank, text, flags, due_ns, now);
}

/* Passes a whole line on, unless it is a row of a frame: that waits for the frame's last row. */
static int put_line(struct merge *m, struct source *s, struct slice text, uint64_t now)
{
    const enum frame_row row = s->open || frame_is_text(text) ? FRAME_NONE
                                                              : frame_row(text, s->frame.n > 0);

    if (row == FRAME_NONE)
        return put(m, s, text, 0, equal_due_ns(m, now), now);
    if (row == FRAME_FIRST && put_frame(m, s, now) < 0)
        return -1;
    if (buf_reserve(&s->frame, text.n + 1) < 0)
        return -1;
    m->partial_bytes += text.n + (s->frame.n > 0);
    if ((s->frame.n && buf_add_text(&s->frame, "\n") < 0) || buf_add_slice(&s->frame, text) < 0)
        return -1;
    source_queue(&m->waits, s, now);
    return row == FRAME_LAST || s->frame.n > FRAME_MAX ? put_frame(m, s, now) : 0;
}

/* Passes on the start of a line, whose end did not come in time, or which is too long to wait. */
static int put_partial(struct merge *m, struct source *s, uint64_t now)
{
    const bool small = s->partial.n <= PARTIAL_MAX && m->mode == PLAN_FOLD;
    const bool bare = !s->open && screen_colours(buf_slice(&s->partial));
    int rc;

    if (!s->partial.n)
        return put_frame(m, s, now);
    rc = put(m, s, buf_slice(&s->partial), bare ? LINE_BARE : m->starts,
             small ? s->since_ns + EQUAL_NS : now, now);
    partial_clear(m, s);
    return rc;
}

static int partial_add(struct merge *m, struct source *s, struct slice text, uint64_t now)
{
    if (!text.n)
        return 0;
    if (buf_add_slice(&s->partial, text) < 0)
        return -1;
    m->partial_bytes += text.n;
    if (screen_colours(buf_slice(&s->partial)))
        return 0; /* it is invisible, so it can wait for what follows */
    if (m->starts)
        source_queue(&m->waits, s, now);
    if ((m->starts ? s->partial.n > PARTIAL_MAX : m->partial_bytes > SHARED_MAX) ||
        (s->open && show_is_open(&m->show, s->stream, s->rank)))
        return put_partial(m, s, now);
    return 0;
}

/* Passes on a line of which the start may have waited. */
static int whole_line(struct merge *m, struct source *s, struct slice text, uint64_t now)
{
    int rc;

    if (!s->partial.n)
        return put_line(m, s, text, now);
    if (buf_add_slice(&s->partial, text) < 0)
        return -1;
    m->partial_bytes += text.n;
    rc = put_line(m, s, buf_slice(&s->partial), now);
    partial_clear(m, s);
    return rc;
}

/* ---- progress bars ---- */

/* The waiting start of the line becomes the first text of the bar. */
static int bar_begin(struct merge *m, struct source *s)
{
    if (s->bar)
        return 0;
    if (s->partial.n && buf_add_slice(&s->rows[s->row].text, buf_slice(&s->partial)) < 0)
        return -1;
    partial_clear(m, s);
    s->open = false; /* what is already on the screen stays; the bar is a line of its own */
    return 0;
}

/* Rows that a newline ended become lines, except the last `keep` of them. Nested bars that were
 * erased leave no line. */
static int release_rows(struct merge *m, struct source *s, unsigned keep, uint64_t now)
{
    if (!keep)
        m->bars_changed |= source_erase(s);
    while (s->row > keep) {
        const struct slice text = buf_slice(&s->rows[0].text);

        if ((text.n || !s->climb) && put_line(m, s, text, now) < 0)
            return -1;
        source_shift(s);
        m->bars_changed = true;
    }
    if (s->bar && (s->rows_n == 1 || !keep) && !source_shows_bar(s))
        source_bar_over(s);
    return 0;
}

static void wait_rows(struct merge *m, uint64_t now)
{
    m->rows_due_ns = m->rows_due_ns < now + ROW_NS ? m->rows_due_ns : now + ROW_NS;
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
        wait_rows(m, now);
    s->ended_ns = now;
    return release_rows(m, s, keep < SOURCE_ROWS - 1 ? keep : SOURCE_ROWS - 2, now);
}

/* The row is too long for a bar: it becomes the start of a line of text. */
static int bar_too_long(struct merge *m, struct source *s, uint64_t now)
{
    int rc;

    if (release_rows(m, s, 0, now) < 0)
        return -1;
    rc = put(m, s, source_row(s), m->starts, now, now);
    source_bar_over(s);
    return rc;
}

static bool row_draws(const struct source *s, unsigned flags, struct slice part)
{
    return flags & LINES_PROGRESS || source_draws(part) || source_goes_on(s, part);
}

static int bar_text(struct merge *m, struct source *s, struct slice part, bool newline,
                    uint64_t now)
{
    if (bar_begin(m, s) < 0 || source_overwrite(s, part) < 0)
        return -1;
    m->bars_changed = true;
    if (s->erased)
        wait_rows(m, now);
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

        if (whole_line(m, s, slice_of(text.p, n), now) < 0)
            return -1;
        text = slice_of(newline + 1, text.n - n - 1);
    }
    return down ? empty_rows(m, s, down, now) : partial_add(m, s, text, now);
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
            if (newline ? whole_line(m, s, part, now) < 0 : partial_add(m, s, part, now) < 0)
                return -1;
        } else if (bar_text(m, s, part, newline != NULL, now) < 0)
            return -1;
        text = slice_of(text.p + part.n + (newline != NULL), text.n - part.n - (newline != NULL));
    }
    return 0;
}

/* Turns rows that waited long enough into lines. */
static int release_waiting(struct merge *m, uint64_t now)
{
    if (now < m->rows_due_ns)
        return 0;
    m->rows_due_ns = UINT64_MAX;
    for (size_t i = 0; i < m->sources_n; i++) {
        struct source *s = m->sources[i];
        const uint64_t due = s && source_waits(s) ? s->ended_ns + ROW_NS : UINT64_MAX;

        if (s && s->erased)
            m->bars_changed |= source_erase(s);
        if (due <= now && release_rows(m, s, s->climb, now) < 0)
            return -1;
        if (due > now && due < m->rows_due_ns)
            m->rows_due_ns = due;
    }
    return 0;
}

/* Shows the current state of the bars, at most once in BARS_NS. done: it is their final state. */
static int report_bars(struct merge *m, bool done, uint64_t now)
{
    int rc = 0;

    if (done ? !m->bars_changed && !m->bars_shown : !m->bars_changed || now < m->bars_next_ns)
        return 0;
    buf_clear(&m->room);
    if (bars_write(m->sources, m->sources_n, m->mode == PLAN_FOLD,
                   m->labelled ? &m->show.labels : NULL, &m->room) < 0)
        return -1;
    if (m->room.n || m->bars_shown)
        rc = m->out.progress(m->out.arg, buf_slice(&m->room), done);
    m->show.refused = rc < 0;
    m->bars_shown = m->room.n && !done;
    m->bars_changed = false;
    m->bars_next_ns = now + BARS_NS;
    return rc;
}

/* ---- the functions of merge.h ---- */

static int rank_lines(struct merge *m, struct source *s, unsigned flags, struct slice data,
                      uint64_t now)
{
    struct slice text;

    if (utf8_stream_pass(&s->utf8, data, &m->room, &text) < 0 ||
        screen_strip(text, &m->bare, &text) < 0)
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
    return result(m, rc == 0 ? report_bars(m, false, now) : rc, err);
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

/* What the rank prints on the other stream comes below its bars that have ended. */
static int end_bars(struct merge *m, unsigned rank, unsigned stream, uint64_t now)
{
    const unsigned other = 3 - stream;
    struct source *s = m->sources[2 * rank + other - 1];

    if (!s || !source_waits(s))
        return 0;
    if (release_rows(m, s, s->climb, now) < 0)
        return -1;
    return line_queue_drain(&m->queues[other - 1], DRAIN_RANK, rank, now);
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
    if (passthrough_is_on(&m->passthrough) && screen_set(data) && end_passthrough(m) < 0)
        return no_memory(err);
    if (passthrough_is_on(&m->passthrough))
        return result(m, passthrough_lines(&m->passthrough, &m->show, stream, data, &m->room), err);
    if (rank >= m->words * 64)
        return err_set(err, "rank %u prints, but is not of the world that the cell runs in", rank);
    if (!(s = source_get(m, rank, stream)))
        return no_memory(err);
    return settle(m, end_bars(m, rank, stream, now) < 0 ? -1 : rank_lines(m, s, flags, data, now),
                  now, err);
}

/* Passes on what the source holds, without waiting for the rest of a line. over: the rank is over,
 * so its bars are, too. */
static int finish_source(struct merge *m, struct source *s, bool over, uint64_t now)
{
    struct buf rest = BUF_INIT;
    int rc = 0;

    if (s->utf8.n) {
        rc = utf8_stream_end(&s->utf8, &rest);
        if (rc == 0)
            rc = s->bar ? source_overwrite(s, buf_slice(&rest))
                        : partial_add(m, s, buf_slice(&rest), now);
        buf_release(&rest);
    }
    if (rc == 0)
        rc = release_rows(m, s, over ? 0 : s->climb, now);
    return rc < 0 ? -1 : put_partial(m, s, now);
}

static int finish_rank(struct merge *m, unsigned rank, bool over, uint64_t now)
{
    for (unsigned k = 0; k < 2; k++) {
        struct source *s = m->sources[2 * rank + k];

        if (s && finish_source(m, s, over, now) < 0)
            return -1;
    }
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
    rc = finish_rank(m, rank, true, now);
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
        rc = release_waiting(m, now);
    return settle(m, rc, now, err);
}

int merge_flush_rank(struct merge *m, unsigned rank, struct err *err)
{
    const uint64_t now = clock_now(m->clock);
    int rc;

    if (passthrough_is_on(&m->passthrough) || rank >= m->words * 64)
        return 0;
    rc = finish_rank(m, rank, false, now);
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
    for (size_t i = 0; rc == 0 && i < m->sources_n; i++)
        if (m->sources[i])
            rc = finish_source(m, m->sources[i], true, now);
    m->rows_due_ns = UINT64_MAX;
    for (unsigned k = 0; rc == 0 && k < 2; k++)
        rc = line_queue_drain(&m->queues[k], DRAIN_ALL, 0, now);
    if (show_out(&m->show) < 0)
        rc = -1;
    if (rc == 0)
        rc = report_bars(m, true, now);
    for (size_t i = 0; i < m->sources_n; i++)
        if (m->sources[i])
            source_bar_over(m->sources[i]);
    return result(m, rc, err);
}

uint64_t merge_due_ns(const struct merge *m)
{
    uint64_t due = UINT64_MAX;

    if (passthrough_is_on(&m->passthrough))
        return due;
    due = clock_earlier(line_queue_due_ns(&m->queues[0]), line_queue_due_ns(&m->queues[1]));
    due = clock_earlier(due, m->rows_due_ns);
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
