/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/processes/worker.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "protocol/bytes.h"
#include "worker/agent/gpu/gpu.h"

static uint64_t now_ns(const struct workers *all)
{
    return clock_now(all->io.clock);
}

/* ---- one worker ---- */

static void init(struct worker *w, struct workers *all, enum worker_role role, uint32_t id,
                 uint32_t rank)
{
    static const enum pipes_how how[] = { PIPES_RAW, PIPES_LINES, PIPES_LOG };

    w->all = all;
    w->role = role;
    w->id = id;
    w->rank = rank;
    w->link_fd = w->stacks.fd = -1;
    worker_state_init(&w->state);
    outbox_init(&w->outbox);
    pipes_init(&w->pipes, &all->io, how[role], id, rank);
}

struct worker *worker_create(struct workers *all, enum worker_role role, uint32_t id, uint32_t rank,
                             const char *python, struct worker_pipes *ends, struct err *err)
{
    struct worker *w = calloc(1, sizeof *w);
    struct worker_pipes ours;

    *ends = (struct worker_pipes)WORKER_ENDS_INIT;
    if (!w)
        return err_null(err, "out of memory");
    init(w, all, role, id, rank);
    if (!(w->python = strdup(python)))
        (void)err_set(err, "out of memory");
    else if (worker_pipes_open(&ours, ends, err) == 0) {
        w->link_fd = ours.link;
        w->pipes.stream[0].fd = ours.out;
        w->pipes.stream[1].fd = ours.errs;
        w->stacks.fd = ours.stack;
        w->next = all->first;
        all->first = w;
        return w;
    }
    worker_destroy(w);
    return NULL;
}

int worker_python(struct worker *w, const char *python)
{
    char *copy = strdup(python);

    if (!copy)
        return -1;
    free(w->python);
    w->python = copy;
    return 0;
}

static void close_all(struct worker *w)
{
    worker_close(w);
    orders_drop(&w->orders);
    outbox_release(&w->outbox);
}

void worker_destroy(struct worker *w)
{
    if (!w)
        return;
    if (!w->state.gone)
        close_all(w);
    pipes_release(&w->pipes);
    stacks_release(&w->stacks);
    free(w->python);
    free(w);
}

void worker_retire(struct worker *w)
{
    struct worker **at = &w->all->first;

    if (w->state.gone)
        return;
    w->state.gone = true;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    close_all(w);
    gpu_release(w->all->gpus, w->id);
    worker_destroy_later(w);
}

const char *worker_name(const struct worker *w, char out[static 48])
{
    if (w->role == WORKER_HOME)
        snprintf(out, 48, "home");
    else if (w->role == WORKER_ZYGOTE)
        snprintf(out, 48, "zygote");
    else
        snprintf(out, 48, "worker %u (rank %u)", w->id, w->rank);
    return out;
}

/* ---- all of them ---- */

struct worker *worker_find(const struct workers *all, uint32_t id)
{
    struct worker *w = id ? all->first : NULL;

    while (w && w->id != id)
        w = w->next;
    return w;
}

struct worker *worker_find_pid(const struct workers *all, pid_t pid)
{
    struct worker *w = all->first;

    while (w && w->state.pid != pid)
        w = w->next;
    return w;
}

struct worker *worker_next(const struct workers *all, struct slice list, size_t *at)
{
    while (*at < list.n / 4) {
        struct worker *w = worker_find(all, reader_u32_at(list, (*at)++));

        if (w)
            return w;
    }
    return NULL;
}

/* ---- signals, and the end ---- */

void worker_expect_end(struct worker *w)
{
    if (worker_state_expect_end(&w->state, now_ns(w->all)))
        worker_set_timer(w->all, w->state.end_due_ns);
}

void worker_unlink(struct worker *w)
{
    worker_close_link(w);
    worker_expect_end(w);
}

/* If the process has ended already, EXITED is sent later, not within this call: the caller may be
 * handling the worker's last message. */
void worker_set_pid(struct worker *w, pid_t pid)
{
    char name[48];
    const int signo = worker_state_set_pid(&w->state, pid, strays_find(&w->all->strays, pid),
                                           now_ns(w->all));

    log_info("child", "%s is process %ld", worker_name(w, name), (long)pid);
    w->zygote = NULL;
    gpu_bind(w->all->gpus, w->id, pid);
    if (signo)
        worker_signal(w, signo);
    worker_set_timer(w->all, w->state.end_due_ns);
}

void worker_signal(struct worker *w, int signo)
{
    if (worker_state_signal(&w->state, signo))
        worker_signal_process(w->state.pid, signo);
}

void worker_kill(struct worker *w, int signo, uint64_t grace_ms)
{
    worker_signal(w, signo);
    if (signo == SIGKILL)
        worker_expect_end(w);
    if (grace_ms == 0)
        return;
    worker_state_grace(&w->state, grace_ms, now_ns(w->all));
    worker_set_timer(w->all, w->state.kill_due_ns);
}

void worker_broke(struct worker *w, const char *format, ...)
{
    char name[48];
    va_list args;

    if (w->state.broke[0])
        return;
    va_start(args, format);
    vsnprintf(w->state.broke, sizeof w->state.broke, format, args);
    va_end(args);
    log_warn("agent", "%s: %s", worker_name(w, name), w->state.broke);
    worker_close_link(w); /* nothing is received from it any more */
    worker_kill(w, SIGKILL, 0);
}
