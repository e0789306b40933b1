/* Lines of the ranks: through merge, which folds and labels them, through pace, which gathers them, to the client. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"

#define PROGRESS_GAP_NS (250 * NS_PER_MS) /* bars are redrawn so often at most */

static void complain(int rc, const struct err *err)
{
    if (rc < 0)
        log_error("stream", "output is lost: %s", err->text);
}

static int out_text(void *arg, unsigned stream, struct slice text)
{
    struct cell *c = arg;
    struct err err = { "" };
    const int rc = pace_add(c->pace, stream, text, &err);

    complain(rc, &err);
    return rc;
}

static int out_progress(void *arg, struct slice text, bool done)
{
    struct cell *c = arg;

    buf_clear(&c->progress);
    if (buf_add_slice(&c->progress, text) < 0)
        return -1;
    c->progress_due = true;
    c->progress_done = done;
    if (c->progress_ns == NEVER)
        c->progress_ns = notebook_now(c->nb);
    return 0;
}

static int out_stream(void *arg, unsigned stream, struct slice text)
{
    struct cell *c = arg;

    if (cell_is_shown(c))
        publish_stream(c->nb, c->request, stream, text);
    return 0;
}

int stream_open(struct cell *c, struct err *err)
{
    c->pace = pace_create(c->nb->doors.clock, out_stream, c, err);
    return c->pace ? 0 : -1;
}

static int merge_open(struct cell *c)
{
    const struct merge_out out = { .text = out_text, .progress = out_progress, .arg = c };
    struct err err = { "" };

    if (!c->merge && !(c->merge = merge_create(c->plan.merge, &c->to, c->nb->doors.clock, out, &err)))
        complain(-1, &err);
    return c->merge ? 0 : -1;
}

void stream_close(struct cell *c)
{
    merge_destroy(c->merge);
    pace_destroy(c->pace);
    c->merge = NULL;
    c->pace = NULL;
}

/* The bars stand in one display, which is updated in place: as text, and as HTML that keeps their columns. */
static void show_progress(struct cell *c)
{
    struct buf content = BUF_INIT;

    if (!cell_is_shown(c)) {
        c->progress_due = false;
        return;
    }
    c->progress_due = false;
    c->progress_ns = c->progress_done ? NEVER : notebook_now(c->nb) + PROGRESS_GAP_NS;
    if (buf_add_text(&content, "{\"data\":{\"text/plain\":") == 0 &&
        jupyter_quote(&content, buf_slice(&c->progress)) == 0 &&
        buf_addf(&content, "},\"metadata\":{},\"transient\":{\"display_id\":\"cellspan-progress-%s-%llu\"}}",
                 c->nb->run_id, (unsigned long long)c->id) == 0)
        publish(c->nb, c->request, c->progress_shown ? "update_display_data" : "display_data", buf_slice(&content));
    c->progress_shown = !c->progress_done;
    buf_release(&content);
}

static void flush_pace(struct cell *c)
{
    struct err err = { "" };

    if (c->pace)
        complain(pace_flush(c->pace, &err), &err);
}

void stream_lines(struct cell *c, unsigned rank, const struct span *m)
{
    struct err err = { "" };

    if (merge_open(c) == 0)
        complain(merge_lines(c->merge, rank, m->v[F_LINES_STREAM].u64 == 2 ? 2 : 1, (unsigned)m->v[F_LINES_FLAGS].u64,
                             m->v[F_LINES_DATA].s, &err),
                 &err);
}

void stream_note(struct cell *c, const char *format, ...)
{
    struct buf line = BUF_INIT;
    struct err err = { "" };
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_trim(text);
    if (buf_addf(&line, "cellspan: %s\n", text) == 0 && c->pace)
        complain(pace_add(c->pace, 2, buf_slice(&line), &err), &err);
    buf_release(&line);
}

void stream_flush(struct cell *c)
{
    struct err err = { "" };

    if (c->merge)
        complain(merge_flush(c->merge, &err), &err);
    flush_pace(c);
    if (c->progress_due)
        show_progress(c);
}

void stream_tick(struct cell *c)
{
    struct err err = { "" };

    if (c->merge)
        complain(merge_tick(c->merge, &err), &err);
    if (c->pace)
        complain(pace_tick(c->pace, &err), &err);
    if (c->progress_due && notebook_now(c->nb) >= c->progress_ns) {
        flush_pace(c);
        show_progress(c);
    }
}

uint64_t stream_due(const struct cell *c)
{
    const uint64_t merge = c->merge ? merge_due_ns(c->merge) : NEVER, pace = c->pace ? pace_due_ns(c->pace) : NEVER;
    const uint64_t bars = c->progress_due ? c->progress_ns : NEVER;
    const uint64_t first = merge < pace ? merge : pace;

    return first < bars ? first : bars;
}
