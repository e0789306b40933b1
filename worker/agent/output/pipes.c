/* pipes.c - see pipes.h. */
#include "worker/agent/output/pipes.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/relay.h"
#include "worker/agent/processes/worker.h"

#define LINES_DATA_MAX 1048576u /* LINES' limit */

static uint64_t now_ns(const struct worker *w)
{
    return clock_now(loop_clock(w->agent->loop));
}

int pipes_put(void *stream, struct slice data, unsigned flags)
{
    struct stream *s = stream;
    struct worker *w = s->worker;
    struct span m = { .kind = SPAN_LINES, .worker = w->id, .cell = w->cell };

    m.v[F_LINES_STREAM].u64 = s->number;
    while (data.n) {
        const size_t n = data.n > LINES_DATA_MAX ? LINES_DATA_MAX : data.n;

        m.v[F_LINES_FLAGS].u64 = n < data.n ? LINES_WITHIN : flags;
        m.v[F_LINES_DATA].s = slice_of(data.p, n);
        kernel_link_send(&w->agent->kernel, &m);
        spool_add(&w->agent->spool, w->cell, w->role == WORKER_HOME ? SPOOL_HOME : w->rank,
                  s->number, (unsigned)m.v[F_LINES_FLAGS].u64, m.v[F_LINES_DATA].s);
        worker_credit_take(&w->credit, n);
        data = slice_of(data.p + n, data.n - n);
    }
    return 0;
}

/* ---- timers for unfinished lines ---- */

static void set_timer(struct worker *w);

static void lines_wait_over(struct loop *loop, void *arg)
{
    struct worker *w = arg;
    const uint64_t now = clock_now(loop_clock(loop));

    w->lines_due_ns = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        struct stream *s = &w->stream[i];

        if (s->fd >= 0 && fd_waiting(s->fd) > 0) /* the rest of the line is on its way */
            lines_wait(&s->lines, now);
        else if (lines_tick(&s->lines, now) < 0)
            log_error("pipes", "out of memory: output is lost");
    }
    set_timer(w);
    worker_watch(w);
}

static void set_timer(struct worker *w)
{
    const uint64_t out = lines_due_ns(&w->stream[0].lines),
                   errs = lines_due_ns(&w->stream[1].lines);
    const uint64_t due = out < errs ? out : errs, now = now_ns(w);
    struct err err = { "" };

    if (due >= w->lines_due_ns) /* rings soon enough */
        return;
    w->lines_due_ns = due;
    if (w->lines_timer)
        loop_timer_again(w->lines_timer, due > now ? due - now : 0);
    else if (!(w->lines_timer = loop_timer(w->agent->loop, due > now ? due - now : 0, 0,
                                           lines_wait_over, w, &err)))
        log_error("pipes", "%s", err.text);
}

/* ---- reading ---- */

/* No cell is there to show it: a module of CELLSPAN_PRELOAD that fails, warnings of an import. */
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
    struct worker *w = s->worker;
    int rc = 0;

    if (w->role == WORKER_ZYGOTE)
        log_lines(data);

    if ((s->number == 2 || w->role == WORKER_ZYGOTE) && tail_add(&w->errors, data) < 0)
        log_error("pipes", "out of memory: last lines are lost");
    if (w->role == WORKER_HOME)
        rc = pipes_put(s, data, 0);
    else if (w->role == WORKER_RANK)
        rc = lines_feed(&s->lines, data, now_ns(w));
    if (rc < 0)
        log_error("pipes", "out of memory: output is lost");
    if (w->role == WORKER_RANK)
        set_timer(w);
}

static void close_stream(struct stream *s)
{
    watch_stop(s->watch);
    s->watch = NULL;
    fd_close(&s->fd);
}

/* Reads at most n bytes that were seen waiting. */
static void read_waiting(struct stream *s, size_t n)
{
    struct agent *a = s->worker->agent;

    while (n > 0 && s->fd >= 0) {
        const ssize_t got = read(s->fd, a->read_buf, n < AGENT_READ_SIZE ? n : AGENT_READ_SIZE);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return;
        take(s, slice_of(a->read_buf, (size_t)got));
        n -= (size_t)got;
    }
}

void pipes_event(struct loop *loop, int fd, unsigned events, void *stream)
{
    struct stream *s = stream;
    struct worker *w = s->worker;
    const size_t waiting = fd_waiting(fd);
    const unsigned drains = w->drains;

    (void)loop;
    if (waiting == 0 && (events & LOOP_HANGUP)) {
        close_stream(s);
        return;
    }
    if (w->role != WORKER_ZYGOTE && relay_read(w) < 0 && !(events & LOOP_HANGUP))
        return; /* messages that were sent before these bytes are still to come */
    if (w->gone || s->fd < 0)
        return;
    if (w->drains == drains) /* else the counted bytes have been read */
        read_waiting(s, waiting < AGENT_READ_SIZE ? waiting : AGENT_READ_SIZE);
    worker_watch(w);
}

void pipes_drain(struct worker *w)
{
    w->drains++;
    for (int i = 0; i < 2; i++)
        if (w->stream[i].fd >= 0)
            read_waiting(&w->stream[i], fd_waiting(w->stream[i].fd));
}

void pipes_flush(struct worker *w)
{
    for (int i = 0; i < 2; i++)
        if (lines_flush(&w->stream[i].lines) < 0)
            log_error("pipes", "out of memory: output is lost");
}
