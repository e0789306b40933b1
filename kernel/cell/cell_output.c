/* SPDX-License-Identifier: BSD-3-Clause */
/* The output of a cell on ranks. Lines pass through merge, which folds and labels them, then omit,
 * which limits them, then pace, which collects them into few messages for the client. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_clears.h"
#include "kernel/cell/cell_panel.h"
#include "kernel/cell/display_order.h"
#include "kernel/merge/merge.h"

#define KEPT_MAX        ((size_t)4 << 20) /* bytes of the largest display that is kept */
#define PROGRESS_GAP_NS (250 * NS_PER_MS) /* shortest time between two updates of the bars */
#define PROGRESS_MOST   20u /* displays of bars of a cell; pages fold more than 50 outputs */
#define PROGRESS_EASY   8u  /* these are made whenever bars become lines */

struct output_path {
    struct output_head head;
    struct merge *merge; /* owned; NULL until a rank has printed */
    struct omit *omit;   /* owned; NULL if Jupyter's server does not limit output */
    struct pace *pace;   /* owned */
    /* the last display that was left out; it is shown when nothing is left out any more */
    struct kept_display {
        char type[24];
        long rank;
        struct buf content;
    } kept;
    struct display_order held; /* displays, and what their ranks print after them */
    bool labelled;             /* a display with a rank's label was shown */
    long under; /* the rank whose display is the last output; -1: something else is */
    struct {    /* the progress bars that are drawn */
        struct buf text;
        bool shown, due; /* in a display; `text` is not shown yet */
        bool below;      /* something else was shown after the display */
        unsigned count;  /* of displays */
        unsigned left;   /* how often bars have become lines since the last one */
        uint64_t due_ns;
    } bars;
};

static void log_failure(int rc, const struct err *err)
{
    if (rc < 0)
        log_error("output", "output is lost: %s", err->text);
}

static int paced(void *arg, unsigned stream, struct slice text)
{
    struct cell *c = arg;
    struct err err = { "" };
    const int rc = pace_add(c->out.path->pace, stream, text, &err);

    c->out.path->under = -1;
    c->out.path->bars.below = true;
    log_failure(rc, &err);
    return rc;
}

static int out_text(void *arg, unsigned stream, struct slice text)
{
    struct cell *c = arg;

    if (c->out.tabs)
        return panel_all(c->out.tabs->panel, stream, text);
    if (c->out.path->omit)
        return omit_text(c->out.path->omit, stream, text);
    if (c->nb->output_limit)
        output_limit_count(c->nb->output_limit, output_limit_size(text));
    return paced(c, stream, text);
}

static int left_out(void *arg, size_t lines, size_t displays)
{
    struct cell *c = arg;
    struct buf note = BUF_INIT;

    displays -= displays && c->out.path->kept.content.n; /* the kept display will be shown */
    if (text_left_out(&note, lines, displays, c->from.count) == 0)
        (void)paced(c, 2, buf_slice(&note));
    buf_release(&note);
    return 0;
}

static void flush_pace(struct cell *c)
{
    struct err err = { "" };

    log_failure(pace_flush(c->out.path->pace, &err), &err);
}

static void update_progress(struct cell *c, struct slice text)
{
    char name[32];

    snprintf(name, sizeof name, "progress-%u", c->out.path->bars.count);
    output_mime(c, text, slice_of(NULL, 0), name, &c->out.path->bars.shown);
}

/* After bars have become lines, the next ones are drawn below these lines, in another display. The
 * last one gets empty, since it can't be removed. There may be few of them, so that with many lines
 * the bars move less and less often. Bars that go on move on pages only: a terminal would show a
 * state of them each time. */
static bool moves(const struct cell *c)
{
    const struct output_path *o = c->out.path;
    const unsigned many = o->bars.count > PROGRESS_EASY ? o->bars.count - PROGRESS_EASY : 0;

    if (!o->bars.shown || !o->bars.below || o->bars.count >= PROGRESS_MOST)
        return false;
    return !o->bars.text.n || (c->nb->output_limit && o->bars.left >= 1u << many);
}

/* All bars are in one display, which is updated in place; where it can't be, what is left of them
 * at the end is shown. */
static void show_progress(struct cell *c)
{
    struct output_path *o = c->out.path;

    if (!cell_is_over(c) && !cell_is_redrawn(c)) {
        o->bars.due_ns = NEVER;
        return;
    }
    o->bars.due = false;
    o->bars.due_ns = notebook_now(c->nb) + PROGRESS_GAP_NS;
    if (!cell_is_shown(c) || (!o->bars.shown && !o->bars.text.n))
        return;
    if (moves(c)) {
        update_progress(c, slice_text(""));
        o->bars.shown = false;
        if (!o->bars.text.n)
            return;
    }
    if (!o->bars.shown) {
        o->bars.count++;
        o->bars.left = 0;
        o->bars.below = false;
    }
    update_progress(c, buf_slice(&o->bars.text));
}

/* Bars that leave are shown as lines at the same time. A bar that is wiped is often drawn again at
 * once, so it does not vanish before that. */
static int out_progress(void *arg, struct slice text, bool left)
{
    struct cell *c = arg;
    struct output_path *o = c->out.path;
    const uint64_t now = notebook_now(c->nb);

    if (c->out.tabs)
        return panel_bars(c->out.tabs->panel, text);
    buf_clear(&o->bars.text);
    if (buf_add_slice(&o->bars.text, text) < 0)
        return -1;
    o->bars.due = true;
    if (left) {
        o->bars.left++;
        flush_pace(c);
        show_progress(c);
    } else if (o->bars.due_ns == NEVER || o->bars.due_ns < now) {
        o->bars.due_ns = text.n ? now : now + PROGRESS_GAP_NS;
    }
    return 0;
}

static int out_stream(void *arg, unsigned stream, struct slice text)
{
    struct cell *c = arg;

    if (cell_is_shown(c))
        publish_stream(c->nb, c->from.request, stream, text);
    return 0;
}

int output_open(struct cell *c, struct err *err)
{
    const struct omit_out out = { .text = paced, .note = left_out, .arg = c };

    if (!(c->out.path = calloc(1, sizeof *c->out.path)))
        return err_set(err, "out of memory");
    c->out.path->bars.due_ns = NEVER;
    display_order_init(&c->out.path->held);
    c->out.path->under = -1;
    if (!(c->out.path->pace = pace_create(c->nb->ops.clock, out_stream, c, err))) {
        output_close(c);
        return -1;
    }
    if (c->nb->output_limit && c->plan.kind != PLAN_RANKS &&
        !(c->out.path->omit = omit_create(c->nb->ops.clock, c->nb->output_limit, out))) {
        output_close(c);
        return err_set(err, "out of memory");
    }
    return 0;
}

bool output_is_open(const struct cell *c)
{
    return c->out.path != NULL;
}

size_t output_waiting(const struct cell *c)
{
    const struct output_path *o = c->out.path;

    return o ? pace_waiting(o->pace) + (o->merge ? merge_waiting(o->merge) : 0) : 0;
}

static int merge_open(struct cell *c)
{
    const struct merge_out out = {
        .text = out_text,
        .progress = out_progress,
        .arg = c,
        .plain_bars = c->nb->output_limit || c->out.tabs,
        .shared = cell_is_of_thread(c),
    };
    struct err err = { "" };

    if (!c->out.path->merge &&
        !(c->out.path->merge = merge_create(cell_panel_on(c) ? PLAN_FOLD : c->plan.merge, &c->to,
                                            c->nb->ops.clock, out, &err)))
        log_failure(-1, &err);
    return c->out.path->merge ? 0 : -1;
}

void output_close(struct cell *c)
{
    struct output_path *o = c->out.path;

    if (!o)
        return;
    merge_destroy(o->merge);
    display_order_release(&o->held);
    cell_panel_close(c);
    clears_close(c);
    omit_destroy(o->omit);
    pace_destroy(o->pace);
    buf_release(&o->bars.text);
    buf_release(&o->kept.content);
    free(o);
    c->out.path = NULL;
}

void output_mime(struct cell *c, struct slice text, struct slice html, const char *name,
                 bool *shown)
{
    if (c->out.path)
        c->out.path->under = -1;
    if (c->out.path && !(shown && *shown))
        c->out.path->bars.below = c->out.path->bars.shown;
    cell_show_mime(c, text, html, name, shown);
}

static void pass_lines(struct cell *c, unsigned rank, unsigned stream, unsigned flags,
                       struct slice data)
{
    struct err err = { "" };

    if (merge_open(c) < 0)
        return;
    log_failure(merge_lines(c->out.path->merge, rank, stream, flags, data, &err), &err);
    log_failure(cell_panel_lines(c, rank, stream, flags, data, &err), &err);
}

/* Holds text, or the end, of a rank whose display is held. false: nothing of it waits any more. */
static bool hold_behind(struct cell *c, const struct held_output *what, struct slice text)
{
    struct display_order *held = &c->out.path->held;

    if (!display_order_has(held, what->rank))
        return false;
    if (display_order_add(held, what, text, slice_of(NULL, 0), notebook_now(c->nb)))
        return true;
    output_show_held(c);
    return false;
}

static void add_lines(struct cell *c, const struct held_output *what, struct slice data)
{
    if (c->out.path && !hold_behind(c, what, data))
        pass_lines(c, what->rank, what->stream, what->flags, data);
}

void output_on_lines(struct cell *c, unsigned rank, const struct span *m)
{
    struct member *member = c->stop.stopping ? cell_member(c, rank) : NULL;
    const struct held_output what = { .kind = HELD_TEXT,
                                      .rank = rank,
                                      .stream = m->v[F_LINES_STREAM].u64 == 2 ? 2 : 1,
                                      .flags = (unsigned)m->v[F_LINES_FLAGS].u64 };
    struct content p = { .content = m->v[F_LINES_DATA].s };
    struct buf kept = BUF_INIT;

    if (member && what.stream == 2 && !what.flags)
        p.content = omit_frames(&member->frames, p.content, &kept);
    if (p.content.n && clears_pass(c, &what, &p))
        add_lines(c, &what, p.content);
    buf_release(&kept);
}

void output_rank_text(struct cell *c, unsigned rank, struct slice text)
{
    const struct held_output what = { .kind = HELD_TEXT, .rank = rank, .stream = 1 };

    add_lines(c, &what, text);
}

static void rank_over(struct cell *c, unsigned rank)
{
    struct err err = { "" };

    if (c->out.path->merge)
        log_failure(merge_rank_over(c->out.path->merge, rank, &err), &err);
}

void output_rank_over(struct cell *c, unsigned rank)
{
    const struct held_output what = { .kind = HELD_OVER, .rank = rank };

    if (c->out.path && clears_pass_over(c, rank) && !hold_behind(c, &what, slice_of(NULL, 0)))
        rank_over(c, rank);
    cell_panel_rank_over(c, rank);
}

void output_text(struct cell *c, unsigned stream, struct slice text)
{
    if (c->out.path)
        (void)out_text(c, stream == 2 ? 2 : 1, text);
}

static void publish_display(struct cell *c, long rank, const char *type, const struct content *p)
{
    const bool labelled = rank >= 0 && rank != c->out.path->under;
    char label[24];

    snprintf(label, sizeof label, "[%ld]\n", rank);
    if (labelled)
        (void)paced(c, 1, slice_text(label));
    if (labelled && c->nb->output_limit)
        output_limit_count(c->nb->output_limit, sizeof label);
    if (rank >= 0 && !cell_is_of_thread(c)) /* calls of other threads show something between */
        c->out.path->under = rank;
    flush_pace(c);
    c->out.path->bars.below = true;
    buf_clear(&c->out.path->kept.content);
    publish_content(c->nb, c->from.request, type, p);
}

/* Shows the last of the displays that were left out, since the last lines are shown too. */
static void show_kept(struct cell *c)
{
    struct buf content = c->out.path->kept.content;
    const struct content p = { .content = buf_slice(&content) };

    if (!content.n || omit_due_ns(c->out.path->omit) != NEVER)
        return;
    c->out.path->kept.content = (struct buf)BUF_INIT;
    output_limit_count(c->nb->output_limit, content.n);
    publish_display(c, c->out.path->kept.rank, c->out.path->kept.type, &p);
    buf_release(&content);
}

/* rank: a label above the display names it; -1: no label */
static void show_display(struct cell *c, long rank, const char *type, const struct content *p)
{
    struct kept_display *kept = &c->out.path->kept;

    if (!c->out.path->omit || omit_display(c->out.path->omit, p->content.n)) {
        publish_display(c, rank, type, p);
        return;
    }
    buf_clear(&kept->content);
    kept->rank = rank;
    snprintf(kept->type, sizeof kept->type, "%s", type);
    if (p->content.n > KEPT_MAX || p->n || buf_add_slice(&kept->content, p->content) < 0)
        buf_clear(&kept->content);
}

/* The first rank's displays need a label only after a display of another rank, because a page shows
 * a display without a label under the label before it; and if other calls show something, too. */
static bool is_labelled(const struct cell *c, unsigned rank, const char *type)
{
    return strcmp(type, "display_data") == 0 && c->plan.merge != PLAN_RAW &&
           (rank != c->member[0].rank || c->out.path->labelled ||
            (cell_is_of_thread(c) && c->plan.merge != PLAN_RANK0));
}

static void show_of_rank(struct cell *c, unsigned rank, const char *type, const struct content *p)
{
    const bool labelled = is_labelled(c, rank, type);

    c->out.path->labelled = c->out.path->labelled || labelled;
    show_display(c, labelled ? (long)rank : -1, type, p);
}

static void flush_rank(struct cell *c, unsigned rank)
{
    struct err err = { "" };

    if (c->out.path->merge)
        log_failure(merge_flush_rank(c->out.path->merge, rank, &err), &err);
}

static void pass_held(struct cell *c, const struct held_output *held)
{
    const struct content p = { .content = buf_slice(&held->content),
                               .metadata = buf_slice(&held->metadata) };

    if (held->kind == HELD_TEXT) {
        pass_lines(c, held->rank, held->stream, held->flags, p.content);
    } else if (held->kind == HELD_OVER) {
        rank_over(c, held->rank);
    } else {
        flush_rank(c, held->rank);
        show_of_rank(c, held->rank, "display_data", &p);
    }
}

void output_show_held(struct cell *c)
{
    struct held_output *held = c->out.path ? display_order_take(&c->out.path->held) : NULL;

    while (held) {
        struct held_output *next = held->next;

        pass_held(c, held);
        held_output_free(held);
        held = next;
    }
}

/* false: it can't wait. */
static bool hold(struct cell *c, unsigned rank, const char *type, const struct content *p)
{
    const struct held_output what = { .kind = HELD_DISPLAY, .rank = rank };

    return c->n > 1 && (c->plan.merge == PLAN_FOLD || c->plan.merge == PLAN_PREFIX) &&
           strcmp(type, "display_data") == 0 && !p->n &&
           display_order_add(&c->out.path->held, &what, p->content, p->metadata,
                             notebook_now(c->nb));
}

static void show_in_tab(struct cell *c, unsigned rank, const char *type, const struct content *p)
{
    struct buf lines = BUF_INIT;

    cell_panel_display(c, rank, type, p, &lines);
    if (lines.n)
        output_rank_text(c, rank, buf_slice(&lines));
    buf_release(&lines);
}

static void draw_bars_again(struct cell *c)
{
    c->out.path->bars.shown = false;
    c->out.path->bars.due = c->out.path->bars.text.n > 0;
}

static void show_or_hold(struct cell *c, unsigned rank, const char *type, const struct content *p)
{
    if (hold(c, rank, type, p))
        return;
    output_show_held(c);
    flush_rank(c, rank);
    show_of_rank(c, rank, type, p);
    if (strcmp(type, "clear_output") == 0)
        draw_bars_again(c);
}

void output_display(struct cell *c, const struct member *member, const char *type,
                    const struct content *p)
{
    if (c->out.path && cell_panel_on(c)) {
        show_in_tab(c, member->rank, type, p);
        return;
    }
    if (c->out.path && clears_pass_display(c, member->rank, type, p))
        show_or_hold(c, member->rank, type, p);
}

void output_clear(struct cell *c, bool wait)
{
    const struct content p = { .content = slice_text(wait ? "{\"wait\":true}"
                                                          : "{\"wait\":false}") };

    output_show_held(c);
    for (size_t k = 0; k < c->n; k++)
        flush_rank(c, c->member[k].rank);
    publish_display(c, -1, "clear_output", &p);
    c->out.path->labelled = false;
    c->out.path->under = -1;
    draw_bars_again(c);
}

void output_again(struct cell *c, const struct held_output *what, const struct content *p)
{
    if (what->kind == HELD_TEXT)
        add_lines(c, what, p->content);
    else
        show_or_hold(c, what->rank, "display_data", p);
}

static void note(struct cell *c, unsigned stream, const char *format, va_list args)
{
    struct buf line = BUF_INIT;
    int rc = buf_add_text(&line, "cellspan: ");

    rc = rc < 0 ? rc : buf_addv(&line, format, args);
    if (rc == 0) {
        text_trim(line.p);
        line.n = strlen(line.p);
        rc = buf_add_text(&line, "\n");
    }
    if (rc == 0 && c->out.path)
        (void)paced(c, stream, buf_slice(&line));
    buf_release(&line);
}

void output_note(struct cell *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(c, 2, format, args);
    va_end(args);
}

void output_news(struct cell *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    note(c, c->nb->output_limit ? 1 : 2, format, args);
    va_end(args);
}

void output_flush(struct cell *c)
{
    struct err err = { "" };

    if (!c->out.path)
        return;
    clears_flush(c);
    output_show_held(c);
    if (c->out.path->merge)
        log_failure(merge_flush(c->out.path->merge, &err), &err);
    if (c->out.path->omit && omit_flush(c->out.path->omit) < 0)
        log_error("output", "out of memory: last lines are lost");
    flush_pace(c);
    if (c->out.path->omit)
        show_kept(c);
    if (c->out.path->bars.due)
        show_progress(c);
    cell_panel_flush(c);
}

void output_tick(struct cell *c, uint64_t now)
{
    struct err err = { "" };

    if (!c->out.path)
        return;
    clears_tick(c, now);
    if (now >= c->out.path->held.due_ns)
        output_show_held(c);
    if (c->out.path->merge)
        log_failure(merge_tick(c->out.path->merge, &err), &err);
    if (c->out.path->omit && omit_tick(c->out.path->omit) < 0)
        log_error("output", "out of memory: last lines are lost");
    if (c->out.path->omit)
        show_kept(c);
    log_failure(pace_tick(c->out.path->pace, &err), &err);
    if (c->out.path->bars.due && now >= c->out.path->bars.due_ns) {
        flush_pace(c);
        show_progress(c);
    }
    cell_panel_tick(c);
}

uint64_t output_due(const struct cell *c)
{
    const struct output_path *o = c->out.path;
    uint64_t first;

    if (!o)
        return NEVER;
    first = clock_earlier(pace_due_ns(o->pace), o->bars.due ? o->bars.due_ns : NEVER);
    first = clock_earlier(first, clock_earlier(o->held.due_ns, clears_due(c)));
    if (o->merge)
        first = clock_earlier(first, merge_due_ns(o->merge));
    if (o->omit)
        first = clock_earlier(first, omit_due_ns(o->omit));
    return clock_earlier(first, cell_panel_due(c));
}
