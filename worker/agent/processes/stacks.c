/* SPDX-License-Identifier: BSD-3-Clause */
/* stacks.c - see stacks.h. A dump of stacks has no end mark: it is complete when nothing follows
 * for a moment. */
#include "worker/agent/processes/stacks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/process.h"
#include "base/utf8.h"
#include "protocol/span_fields.h"
#include "worker/agent/net/kernel_link.h"
#include "worker/agent/processes/worker.h"
#include "worker/link/stacks.h"

#define QUIET_NS (20 * NS_PER_MS)
#define LIMIT_NS (2 * NS_PER_S)
/* a worker that lives this long after the text of a crash has not crashed: a child of it has */
#define CRASH_NS (10 * NS_PER_S)
/* NCCL answers slowest when a rank is dead or frozen, and then the answer is most important */
#define NCCL_NS (3 * NS_PER_S)

static void close_pipe(struct stacks *s)
{
    watch_clear(&s->watch);
    fd_close(&s->fd);
}

void stacks_close(struct stacks *s)
{
    close_pipe(s);
    watch_clear(&s->timer);
}

void stacks_release(struct stacks *s)
{
    stacks_close(s);
    buf_release(&s->text);
    nccl_status_end(s->nccl);
}

static void answer(struct worker *w, struct slice text)
{
    struct span m = { .kind = SPAN_STACK, .worker = w->id, .cell = w->stacks.cell };
    struct buf clean = BUF_INIT;

    if (utf8_add_short(&clean, text, STACKS_MAX) < 0)
        log_error("stacks", "out of memory: a stack is lost");
    m.v[F_STACK_TEXT].s = buf_slice(&clean);
    kernel_link_send(w->all->io.kernel, &m);
    buf_release(&clean);
}

static const char *find_crash(const struct buf *text)
{
    static const char *const begins[] = { "Fatal Python error",
                                          "C stack (most recent call first)" };
    const char *at = NULL;

    for (size_t i = 0; text->n && i < sizeof begins / sizeof *begins && !at; i++)
        at = strstr(text->p, begins[i]);
    return at;
}

/* Only what a crash has written is kept. Before it there may be an answer. */
static void keep_crash(struct buf *text)
{
    const char *at = find_crash(text);

    buf_drop(text, at ? (size_t)(at - text->p) : text->n);
}

/* Answers with what has arrived; `nothing`: the text if that is nothing. */
static void conclude(struct worker *w, const char *nothing)
{
    struct nccl_status *nccl = w->stacks.nccl;

    if (!w->stacks.asked)
        return;
    w->stacks.asked = false;
    w->stacks.nccl = NULL;
    if (w->stacks.text.n == 0 && buf_add_text(&w->stacks.text, nothing) < 0)
        log_error("stacks", "out of memory: a stack is lost");
    if (nccl_status_text(nccl, &w->stacks.text) < 0)
        log_error("stacks", "out of memory: what NCCL said is lost");
    nccl_status_end(nccl);
    answer(w, buf_slice(&w->stacks.text));
    keep_crash(&w->stacks.text);
}

static int wait_for(struct worker *w, uint64_t ns);

static void answer_stopped(struct worker *w)
{
    char text[128];

    snprintf(text, sizeof text,
             SPAN_STACK_STOPPED ", as by SIGSTOP: kill -CONT %ld lets it go on)\n",
             (long)w->state.pid);
    answer(w, slice_text(text));
}

/* The stacks are complete, or their time is over. NCCL's answer may take a little longer. */
static void finish_stacks(struct worker *w)
{
    const uint64_t now = clock_now(loop_clock(w->all->io.loop));
    const uint64_t limit = w->stacks.limit_ns + NCCL_NS - LIMIT_NS;

    w->stacks.over = true;
    if (!nccl_status_waits(w->stacks.nccl) || now >= limit || wait_for(w, limit - now) < 0)
        conclude(w, "(no answer: it may be stopped or deep in the system)\n");
}

static void nccl_said(struct worker *w)
{
    if (w->stacks.over)
        finish_stacks(w);
}

/* Does the process have a handler for the signal? Without one it would die: it is starting, or has
 * executed another program. If the system does not tell, a worker that is ready has one. */
static bool is_caught(pid_t pid)
{
    char path[64], line[256];
    uint64_t caught = UINT64_MAX;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    if (!(f = fopen(path, "re")))
        return true;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "SigCgt:", 7) == 0)
            caught = strtoull(line + 7, NULL, 16);
    fclose(f);
    return STACKS_SIGNAL && caught >> (unsigned)(STACKS_SIGNAL - 1) & 1;
}

/* The worker has not got Python's lock: C code keeps it, or the worker is stopped. */
static bool send_signal(struct worker *w)
{
    w->stacks.signalled = true;
    return is_caught(w->state.pid) && kill(w->state.pid, STACKS_SIGNAL) == 0 &&
           wait_for(w, LIMIT_NS - STACKS_LOCK_NS) == 0;
}

static void wait_over(void *arg)
{
    struct worker *w = arg;
    const bool waits = w->stacks.asked && w->stacks.text.n == 0 && !w->stacks.over;

    if (!waits || w->stacks.signalled || !send_signal(w))
        finish_stacks(w);
}

static int wait_for(struct worker *w, uint64_t ns)
{
    struct err err = { "" };

    if (w->stacks.timer) {
        loop_timer_again(w->stacks.timer, ns);
        return 0;
    }
    if ((w->stacks.timer = loop_timer(w->all->io.loop, ns, 0, wait_over, w, &err)))
        return 0;
    log_error("stacks", "%s", err.text);
    return -1;
}

uint64_t stacks_ask(struct worker *w, uint64_t cell)
{
    const uint64_t now = clock_now(loop_clock(w->all->io.loop));

    conclude(w, "(it was asked again)\n"); /* one answer for each question */
    w->stacks.cell = cell;
    if (!w->state.ready || w->state.pid <= 0 || (STACKS_SIGNAL && !is_caught(w->state.pid))) {
        answer(w, slice_text("(it is starting, or runs another program)\n"));
        return 0;
    }
    if (process_is_stopped(w->state.pid)) {
        answer_stopped(w);
        return 0;
    }
    keep_crash(&w->stacks.text);
    if (now - w->stacks.read_ns > CRASH_NS)
        buf_clear(&w->stacks.text);
    if (w->stacks.text.n) {
        answer(w, slice_text("(it has crashed)\n"));
        return 0;
    }
    w->stacks.asked = true;
    w->stacks.over = w->stacks.signalled = false;
    if (w->all->nccl.cell != cell && (w->stacks.nccl = nccl_status_ask(w, nccl_said)))
        w->all->nccl.cell = cell; /* one rank of the node is enough */
    w->stacks.limit_ns = now + LIMIT_NS;
    if (wait_for(w, STACKS_LOCK_NS) < 0)
        finish_stacks(w);
    return w->stacks.asked ? now + STACKS_LOCK_NS : 0;
}

/* Reads at most the bytes that are there now. Of an answer that is too long, the last bytes are
 * kept: they have the main thread. Of a crash, the first ones say most. */
static size_t read_some(struct worker *w)
{
    const size_t waiting = fd_waiting(w->stacks.fd);
    const size_t want = waiting < PIPES_READ_SIZE ? waiting : PIPES_READ_SIZE;
    const ssize_t got = want ? read(w->stacks.fd, w->all->io.read_buf, want) : 0;
    size_t room = STACKS_MAX - w->stacks.text.n;

    if (got <= 0)
        return 0;
    if (room < (size_t)got) {
        if (!w->stacks.asked || find_crash(&w->stacks.text))
            keep_crash(&w->stacks.text);
        else
            buf_drop(&w->stacks.text, (size_t)got - room);
        room = STACKS_MAX - w->stacks.text.n;
    }
    w->stacks.read_ns = clock_now(loop_clock(w->all->io.loop));
    if (room > (size_t)got)
        room = (size_t)got;
    if (buf_add(&w->stacks.text, w->all->io.read_buf, room) < 0)
        log_error("stacks", "out of memory: a stack is lost");
    return (size_t)got;
}

void stacks_event(void *worker, int fd, unsigned events)
{
    struct worker *w = worker;
    const size_t got = read_some(w);
    const uint64_t now = clock_now(loop_clock(w->all->io.loop));

    (void)fd;
    if (got == 0 && (events & LOOP_HANGUP))
        close_pipe(&w->stacks);
    if (!w->stacks.asked || got == 0)
        return;
    if (now >= w->stacks.limit_ns)
        finish_stacks(w);
    else
        (void)wait_for(w, QUIET_NS);
}

void stacks_rest(struct worker *w)
{
    while (w->stacks.fd >= 0 && read_some(w) > 0)
        ;
    keep_crash(&w->stacks.text);
    if (w->stacks.asked) {
        const struct buf crash = w->stacks.text;

        w->stacks.text = (struct buf)BUF_INIT;
        conclude(w, "(it has ended)\n");
        buf_release(&w->stacks.text);
        w->stacks.text = crash;
    }
}
