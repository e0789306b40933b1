/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/output/pipes.h"

#include "base/log.h"
#include "protocol/span_fields.h"
#include "worker/agent/net/kernel_link.h"
#include "worker/agent/output/spool.h"

#define LINES_DATA_MAX 1048576u /* LINES' limit */

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

void pipes_log(struct pipes *p, struct slice text)
{
    if (text.n)
        spool_add(p->io->spool, p->cell, p->how == PIPES_RAW ? SPOOL_HOME : p->rank, 2, 0, text);
}

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

void pipes_release(struct pipes *p)
{
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
    return p->ended || (!p->io->full && !worker_credit_is_out(&p->credit));
}

uint64_t pipes_due_ns(const struct pipes *p)
{
    return clock_earlier(lines_due_ns(&p->stream[0].lines), lines_due_ns(&p->stream[1].lines));
}

void pipes_tick(struct stream *s, bool more)
{
    const uint64_t now = clock_now(s->pipes->io->clock);

    if (more) /* the rest of the line is on its way */
        lines_wait(&s->lines, now);
    else if (lines_tick(&s->lines, now) < 0)
        log_error("pipes", "out of memory: output is lost");
}

/* A zygote's text belongs to no cell: errors of modules in CELLSPAN_PRELOAD, import warnings. */
static void log_lines(struct slice text)
{
    while (text.n) {
        const struct slice line = slice_line(&text);

        if (line.n)
            log_warn("zygote", "%.*s", SLICE_ARG(line));
    }
}

void pipes_take(struct stream *s, struct slice data)
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
        rc = lines_feed(&s->lines, data, clock_now(p->io->clock));
    if (rc < 0)
        log_error("pipes", "out of memory: output is lost");
}

void pipes_flush(struct pipes *p)
{
    for (int i = 0; i < 2; i++)
        if (lines_flush(&p->stream[i].lines) < 0)
            log_error("pipes", "out of memory: output is lost");
}
