/* The output of a cell on ranks. Lines pass through merge, which folds and labels them, then omit,
 * which limits them, then pace, which collects them into few messages for the client. */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "kernel/cell/cell_panel.h"

#define KEPT_MAX        ((size_t)4 << 20) /* bytes of the largest display that is kept */
#define PROGRESS_GAP_NS (250 * NS_PER_MS) /* shortest time between two updates of the bars */

static void log_failure(int rc, const struct err *err)
{
    if (rc < 0)
        log_error("output", "output is lost: %s", err->text);
}

static int paced(void *arg, unsigned stream, struct slice text)
{
    struct cell *c = arg;
    struct err err = { "" };
    const int rc = pace_add(c->out.pace, stream, text, &err);

    log_failure(rc, &err);
    return rc;
}

static int out_text(void *arg, unsigned stream, struct slice text)
{
    struct cell *c = arg;

    if (c->out.tabs.panel)
        return panel_all(c->out.tabs.panel, stream, text);
    if (c->out.omit)
        return omit_text(c->out.omit, stream, text);
    if (c->nb->page)
        page_count(c->nb->page, page_size(text));
    return paced(c, stream, text);
}

static int left_out(void *arg, size_t lines, size_t displays)
{
    struct cell *c = arg;
    struct buf note = BUF_INIT;

    displays -= displays && c->out.kept.content.n; /* the kept display will be shown */
    if (text_left_out(&note, lines, displays, c->from.count) == 0)
        (void)paced(c, 2, buf_slice(&note));
    buf_release(&note);
    return 0;
}

static int out_progress(void *arg, struct slice text, bool done)
{
    struct cell *c = arg;

    if (c->out.tabs.panel)
        return panel_bars(c->out.tabs.panel, text, done);
    buf_clear(&c->out.bars.text);
    if (buf_add_slice(&c->out.bars.text, text) < 0)
        return -1;
    c->out.bars.due = true;
    c->out.bars.done = done;
    if (c->out.bars.due_ns == NEVER)
        c->out.bars.due_ns = notebook_now(c->nb);
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

    c->out.bars.due_ns = NEVER;
    if (!(c->out.pace = pace_create(c->nb->ops.clock, out_stream, c, err)))
        return -1;
    if (c->nb->page && c->plan.kind != PLAN_RANKS &&
        !(c->out.omit = omit_create(c->nb->ops.clock, c->nb->page, out)))
        return err_set(err, "out of memory");
    return 0;
}

static int merge_open(struct cell *c)
{
    const struct merge_out out = { .text = out_text, .progress = out_progress, .arg = c };
    struct err err = { "" };

    if (!c->out.merge && !(c->out.merge = merge_create(cell_panel_on(c) ? PLAN_FOLD : c->plan.merge,
                                                       &c->to, c->nb->ops.clock, out, &err)))
        log_failure(-1, &err);
    return c->out.merge ? 0 : -1;
}

void output_close(struct cell *c)
{
    merge_destroy(c->out.merge);
    cell_panel_close(c);
    omit_destroy(c->out.omit);
    buf_release(&c->out.bars.text);
    buf_release(&c->out.kept.content);
    pace_destroy(c->out.pace);
    c->out.merge = NULL;
    c->out.omit = NULL;
    c->out.pace = NULL;
}

void output_bundle(struct cell *c, struct slice text, struct slice html, const char *name,
                   bool *shown)
{
    struct buf content = BUF_INIT;
    char id[128];

    if (name)
        snprintf(id, sizeof id, "cellspan-%s-%s-%llu", name, c->nb->config.run_id,
                 (unsigned long long)c->id);
    if (jupyter_display(&content, text, html, name ? id : NULL) < 0) {
        log_error("output", "a display is lost: out of memory");
    } else {
        publish(c->nb, c->from.request, shown && *shown ? "update_display_data" : "display_data",
                buf_slice(&content));
        if (shown)
            *shown = true;
    }
    buf_release(&content);
}

/* All bars are in one display, which is updated in place. */
static void show_progress(struct cell *c)
{
    c->out.bars.due = false;
    if (!cell_is_shown(c))
        return;
    c->out.bars.due_ns = c->out.bars.done ? NEVER : notebook_now(c->nb) + PROGRESS_GAP_NS;
    output_bundle(c, buf_slice(&c->out.bars.text), slice_of(NULL, 0), "progress",
                  &c->out.bars.shown);
    c->out.bars.shown = !c->out.bars.done;
}

static void flush_pace(struct cell *c)
{
    struct err err = { "" };

    if (c->out.pace)
        log_failure(pace_flush(c->out.pace, &err), &err);
}

static void add_lines(struct cell *c, unsigned rank, unsigned stream, unsigned flags,
                      struct slice data)
{
    struct err err = { "" };

    if (merge_open(c) < 0)
        return;
    if (ranks_has(&c->out.tabs.clearing, rank))
        panel_displays_clear(c, rank);
    log_failure(merge_lines(c->out.merge, rank, stream, flags, data, &err), &err);
    if (c->out.tabs.panel)
        log_failure(panel_lines(c->out.tabs.panel, rank, stream, flags, data, &err), &err);
}

void output_lines(struct cell *c, unsigned rank, const struct span *m)
{
    add_lines(c, rank, m->v[F_LINES_STREAM].u64 == 2 ? 2 : 1, (unsigned)m->v[F_LINES_FLAGS].u64,
              m->v[F_LINES_DATA].s);
}

void output_rank_text(struct cell *c, unsigned rank, struct slice text)
{
    add_lines(c, rank, 1, 0, text);
}

void output_rank_over(struct cell *c, unsigned rank)
{
    struct err err = { "" };

    if (c->out.merge)
        log_failure(merge_rank_over(c->out.merge, rank, &err), &err);
    cell_panel_rank_over(c, rank);
}

void output_text(struct cell *c, unsigned stream, struct slice text)
{
    (void)out_text(c, stream == 2 ? 2 : 1, text);
}

static void publish_display(struct cell *c, long rank, const char *type, const struct content *p)
{
    char label[24];

    snprintf(label, sizeof label, "[%ld]\n", rank);
    if (rank >= 0 && c->out.pace)
        (void)paced(c, 1, slice_text(label));
    if (rank >= 0 && c->nb->page)
        page_count(c->nb->page, sizeof label);
    flush_pace(c);
    buf_clear(&c->out.kept.content);
    c->nb->ops.publish(c->nb->ops.arg, c->from.request, type, p);
}

/* Shows the last of the displays that were left out, since the last lines are shown too. */
static void show_kept(struct cell *c)
{
    struct buf content = c->out.kept.content;
    const struct content p = { .content = buf_slice(&content) };

    if (!content.n || omit_due_ns(c->out.omit) != NEVER)
        return;
    c->out.kept.content = (struct buf)BUF_INIT;
    page_count(c->nb->page, content.n);
    publish_display(c, c->out.kept.rank, c->out.kept.type, &p);
    buf_release(&content);
}

void output_display(struct cell *c, long rank, const char *type, const struct content *p)
{
    if (!c->out.omit || omit_display(c->out.omit, p->content.n)) {
        publish_display(c, rank, type, p);
        return;
    }
    buf_clear(&c->out.kept.content);
    c->out.kept.rank = rank;
    snprintf(c->out.kept.type, sizeof c->out.kept.type, "%s", type);
    if (p->content.n > KEPT_MAX || p->n || buf_add_slice(&c->out.kept.content, p->content) < 0)
        buf_clear(&c->out.kept.content);
}

void output_note(struct cell *c, const char *format, ...)
{
    struct buf line = BUF_INIT;
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_trim(text);
    if (buf_addf(&line, "cellspan: %s\n", text) == 0 && c->out.pace)
        (void)paced(c, 2, buf_slice(&line));
    buf_release(&line);
}

void output_flush(struct cell *c)
{
    struct err err = { "" };

    if (c->out.merge)
        log_failure(merge_flush(c->out.merge, &err), &err);
    if (c->out.omit && omit_flush(c->out.omit) < 0)
        log_error("output", "out of memory: last lines are lost");
    flush_pace(c);
    if (c->out.omit)
        show_kept(c);
    if (c->out.bars.due)
        show_progress(c);
    cell_panel_flush(c);
}

void output_tick(struct cell *c, uint64_t now)
{
    struct err err = { "" };

    if (c->out.merge)
        log_failure(merge_tick(c->out.merge, &err), &err);
    if (c->out.omit && omit_tick(c->out.omit) < 0)
        log_error("output", "out of memory: last lines are lost");
    if (c->out.omit)
        show_kept(c);
    if (c->out.pace)
        log_failure(pace_tick(c->out.pace, &err), &err);
    if (c->out.bars.due && now >= c->out.bars.due_ns) {
        flush_pace(c);
        show_progress(c);
    }
    cell_panel_tick(c);
}

uint64_t output_due(const struct cell *c)
{
    const uint64_t merge = c->out.merge ? merge_due_ns(c->out.merge) : NEVER;
    const uint64_t omit = c->out.omit ? omit_due_ns(c->out.omit) : NEVER;
    const uint64_t pace = c->out.pace ? pace_due_ns(c->out.pace) : NEVER;
    const uint64_t bars = c->out.bars.due ? c->out.bars.due_ns : NEVER;

    return clock_earlier(clock_earlier(clock_earlier(merge, omit), clock_earlier(pace, bars)),
                         cell_panel_due(c));
}
