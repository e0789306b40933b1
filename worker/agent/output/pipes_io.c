/* SPDX-License-Identifier: BSD-3-Clause */
/* pipes_io.c - reads the pipes, and sets the timer for unfinished lines (declared in pipes.h). */
#include "worker/agent/output/pipes.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"

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

void pipes_watch(struct pipes *p)
{
    for (int i = 0; i < 2; i++)
        if (p->stream[i].watch)
            loop_fd_events(p->stream[i].watch, pipes_may_send(p) ? LOOP_READ : 0);
}

static void set_timer(struct pipes *p);

static void lines_wait_over(void *arg)
{
    struct pipes *p = arg;

    p->due_ns = UINT64_MAX;
    for (int i = 0; i < 2; i++)
        pipes_tick(&p->stream[i], p->stream[i].fd >= 0 && fd_waiting(p->stream[i].fd) > 0);
    set_timer(p);
    pipes_watch(p);
}

static void set_timer(struct pipes *p)
{
    const uint64_t due = pipes_due_ns(p), now = clock_now(p->io->clock);
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

void pipes_read(struct stream *s, size_t n)
{
    char *bytes = s->pipes->io->read_buf;

    while (n > 0 && s->fd >= 0) {
        const ssize_t got = read(s->fd, bytes, n < PIPES_READ_SIZE ? n : PIPES_READ_SIZE);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        pipes_take(s, slice_of(bytes, (size_t)got));
        n -= (size_t)got;
    }
    set_timer(s->pipes);
}

void pipes_drain(struct pipes *p)
{
    p->drains++;
    for (int i = 0; i < 2; i++)
        if (p->stream[i].fd >= 0)
            pipes_read(&p->stream[i], fd_waiting(p->stream[i].fd));
}
