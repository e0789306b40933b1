#include "worker/agent/output/pipes.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "protocol/span_fields.h"
#include "worker/agent/net/kernel_link.h"
#include "worker/agent/output/spool.h"

#define LINES_DATA_MAX 1048576u /* LINES' limit */

static uint64_t now_ns(const struct pipes *p)
{
    return clock_now(loop_clock(p->io->loop));
}

/* Sends text of the stream, in one LINES or more. */
static int put(void *stream, struct slice data, unsigned flags)
{
    struct stream *s = stream;
    struct pipes *p = s->pipes;
    struct span m = { .kind = SPAN_LINES, .worker = p->worker, .cell = p->cell };

    m.v[F_LINES_STREAM].u64 = s->number;
    while (data.n) {
        const size_t n = data.n > LINES_DATA_MAX ? LINES_DATA_MAX : data.n;

        m.v[F_LINES_FLAGS].u64 = n < data.n ? LINES_WITHIN : flags;
        m.v[F_LINES_DATA].s = slice_of(data.p, n);
        kernel_link_send(p->io->kernel, &m);
        spool_add(p->io->spool, p->cell, p->how == PIPES_RAW ? SPOOL_HOME : p->rank, s->number,
                  (unsigned)m.v[F_LINES_FLAGS].u64, m.v[F_LINES_DATA].s);
        worker_credit_take(&p->credit, n);
        data = slice_of(data.p + n, data.n - n);
    }
    return 0;
}

/* ---- what is watched ---- */

void pipes_init(struct pipes *p, const struct pipes_io *io, enum pipes_how how, uint32_t worker,
                uint32_t rank)
{
    *p = (struct pipes){
        .io = io, .how = how, .worker = worker, .rank = rank, .due_ns = UINT64_MAX
    };
    p->credit = (struct worker_credit){ (int64_t)io->window, (int64_t)io->window };
    for (unsigned i = 0; i < 2; i++)
        p->stream[i] = (struct stream){ p, i + 1, -1, NULL, LINES_INIT(put, &p->stream[i]) };
}

void pipes_end(struct stream *s)
{
    watch_clear(&s->watch);
    fd_close(&s->fd);
}

void pipes_close(struct pipes *p)
{
    pipes_end(&p->stream[0]);
    pipes_end(&p->stream[1]);
    watch_clear(&p->timer);
}

void pipes_release(struct pipes *p)
{
    pipes_close(p);
    lines_release(&p->stream[0].lines);
    lines_release(&p->stream[1].lines);
    tail_release(&p->errors);
}

void pipes_begin(struct pipes *p, uint64_t cell, bool fresh)
{
    p->cell = cell;
    if (fresh)
        tail_clear(&p->errors);
}

bool pipes_may_send(const struct pipes *p)
{
    return p->ended || !worker_credit_is_out(&p->credit);
}

void pipes_watch(struct pipes *p)
{
    for (int i = 0; i < 2; i++)
        if (p->stream[i].watch)
            loop_fd_events(p->stream[i].watch, pipes_may_send(p) ? LOOP_READ : 0);
}

/* ---- timers for unfinished lines ---- */

static void set_timer(struct pipes *p);

static void lines_wait_over(void *arg)
{
    struct pipes *p = arg;
    const uint64_t now = clock_now(loop_clock(p->io->loop));

    p->due_ns = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        struct stream *s = &p->stream[i];

        if (s->fd >= 0 && fd_waiting(s->fd) > 0) /* the rest of the line is on its way */
            lines_wait(&s->lines, now);
        else if (lines_tick(&s->lines, now) < 0)
            log_error("pipes", "out of memory: output is lost");
    }
    set_timer(p);
    pipes_watch(p);
}

static void set_timer(struct pipes *p)
{
    const uint64_t out = lines_due_ns(&p->stream[0].lines),
                   errs = lines_due_ns(&p->stream[1].lines);
    const uint64_t due = out < errs ? out : errs, now = now_ns(p);
    struct err err = { "" };

    if (due >= p->due_ns) /* the timer fires soon enough */
        return;
    p->due_ns = due;
    if (p->timer)
        loop_timer_again(p->timer, due > now ? due - now : 0);
    else if (!(p->timer = loop_timer(p->io->loop, due > now ? due - now : 0, 0, lines_wait_over, p,
                                     &err)))
        log_error("pipes", "%s", err.text);
}

/* ---- reading ---- */

/* A zygote's text belongs to no cell: errors of modules in CELLSPAN_PRELOAD, import warnings. */
static void log_lines(struct slice text)
{
    while (text.n) {
        const struct slice line = slice_line(&text);

        if (line.n)
            log_warn("zygote", "%.*s", SLICE_ARG(line));
    }
}

static void take(struct stream *s, struct slice data)
{
    struct pipes *p = s->pipes;
    int rc = 0;

    if (p->how == PIPES_LOG)
        log_lines(data);
    if ((s->number == 2 || p->how == PIPES_LOG) && tail_add(&p->errors, data) < 0)
        log_error("pipes", "out of memory: last lines are lost");
    if (p->how == PIPES_RAW)
        rc = put(s, data, 0);
    else if (p->how == PIPES_LINES)
        rc = lines_feed(&s->lines, data, now_ns(p));
    if (rc < 0)
        log_error("pipes", "out of memory: output is lost");
    if (p->how == PIPES_LINES)
        set_timer(p);
}

void pipes_read(struct stream *s, size_t n)
{
    char *bytes = s->pipes->io->read_buf;

    while (n > 0 && s->fd >= 0) {
        const ssize_t got = read(s->fd, bytes, n < PIPES_READ_SIZE ? n : PIPES_READ_SIZE);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return;
        take(s, slice_of(bytes, (size_t)got));
        n -= (size_t)got;
    }
}

void pipes_drain(struct pipes *p)
{
    p->drains++;
    for (int i = 0; i < 2; i++)
        if (p->stream[i].fd >= 0)
            pipes_read(&p->stream[i], fd_waiting(p->stream[i].fd));
}

void pipes_flush(struct pipes *p)
{
    for (int i = 0; i < 2; i++)
        if (lines_flush(&p->stream[i].lines) < 0)
            log_error("pipes", "out of memory: output is lost");
}
