/* SPDX-License-Identifier: BSD-3-Clause */
/* exited.c - how a worker's end becomes EXITED, and ends that are overdue (declared in private.h).
 */
#include "worker/agent/private.h"

#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/utf8.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/net/join.h"

#define LAST_LINES 20u /* of a worker, in the error about its death */

/* ---- EXITED ---- */

static int add_cause(struct worker *w, const struct death *d, struct slice said, struct buf *out)
{
    struct death_cause c = {
        .who = w->role == WORKER_ZYGOTE ? "the process that ranks are forked from" : NULL,
        .python = w->python,
        .node = join_is_remote(w->all->agent->args.connect) ? w->all->agent->args.node : NULL,
        .ready = w->state.ready && w->role != WORKER_ZYGOTE,
        .death = *d,
        .ours = worker_state_killed(&w->state, d),
        .oom = OOM_NONE,
        .said = said,
        .broke = w->state.broke[0] ? w->state.broke : NULL,
    };

    if (d->known && d->code == EXITED_SIGNAL && d->status == SIGKILL)
        c.oom = oom_check(&w->all->agent->oom);
    return death_cause_text(&c, out);
}

/* The content of EXITED, kept while the driver is asked about a dead worker's GPUs. */
struct exited {
    struct agent *agent;
    uint32_t id;
    pid_t pid;
    struct death death;
    bool up; /* it had said READY */
    struct buf cause, errors, stack;
};

static void send_exited(const struct exited *o, const char *gpu)
{
    struct span m = { .kind = SPAN_EXITED, .worker = o->id };
    const struct slice cause = buf_slice(&o->cause);

    m.v[F_EXITED_PID].u64 = (uint64_t)o->pid;
    m.v[F_EXITED_CODE].u64 = o->up && o->death.known ? o->death.code : EXITED_UNKNOWN;
    m.v[F_EXITED_STATUS].u64 = o->death.known ? (uint64_t)o->death.status : 0;
    m.v[F_EXITED_CAUSE].s = slice_of(cause.p, cause.n > 4096 ? 4096 : cause.n);
    m.v[F_EXITED_STDERR].s = buf_slice(&o->errors);
    m.v[F_EXITED_STACK].s = buf_slice(&o->stack);
    m.v[F_EXITED_GPU].s = slice_text(gpu);
    kernel_link_send(&o->agent->kernel, &m);
}

static void exited_release(struct exited *o)
{
    buf_release(&o->cause);
    buf_release(&o->errors);
    buf_release(&o->stack);
}

static void gpus_known(void *arg, const char *text)
{
    struct exited *o = arg;

    send_exited(o, text);
    exited_release(o);
    free(o);
}

/* Takes what o owns. The driver, which takes a moment, is only asked if the worker had GPUs. */
static void publish(struct worker *w, struct exited *o)
{
    struct exited *kept = gpu_has(w->all->agent->gpus, w->id) ? malloc(sizeof *kept) : NULL;
    struct node_workers others;

    if (!kept) {
        send_exited(o, "");
        exited_release(o);
        return;
    }
    *kept = *o;
    if (node_workers_init(&others, w->all->agent, w->id) < 0)
        log_error("exited", "out of memory: who shares the GPU is not told");
    gpu_death_report(w->all->agent->gpus, w->id, buf_slice(&kept->errors), others.v, others.n,
                     gpus_known, kept);
    node_workers_release(&others);
}

/* zygote: set for a rank that its zygote did not fork: then d is the zygote's death. */
static void tell_exited(struct worker *w, const struct death *d, struct worker *zygote)
{
    struct worker *teller = zygote ? zygote : w;
    struct exited o = { w->all->agent, w->id,    w->state.pid, *d, w->state.ready && !zygote,
                        BUF_INIT,      BUF_INIT, BUF_INIT };
    struct buf cause = BUF_INIT;

    if (tail_text(&teller->pipes.errors, LAST_LINES, &o.errors) < 0 ||
        add_cause(teller, d, buf_slice(&o.errors), &cause) < 0 ||
        utf8_add_short(&o.cause, buf_slice(&cause), 4096) < 0 ||
        utf8_add_short(&o.stack, buf_slice(&teller->stacks.text), STACKS_MAX) < 0)
        log_error("exited", "out of memory: a death is told without its cause");
    buf_release(&cause);
    publish(w, &o);
}

void exited_never_started(struct agent *a, unsigned id, const char *why)
{
    struct exited o = { a, id, 0, DEATH_UNKNOWN, false, BUF_INIT, BUF_INIT, BUF_INIT };

    if (utf8_add_short(&o.cause, slice_text(why), 4096) < 0)
        log_error("exited", "out of memory: worker %u was not started", id);
    send_exited(&o, "");
    exited_release(&o);
}

/* ---- one death ---- */

/* Ranks that it did not fork yet never start. They have no process, so the zygote's death is their
 * cause. */
static void end_zygote(struct worker *z, const struct death *d)
{
    struct agent *a = z->all->agent;
    struct worker *next;

    zygote_read(z); /* its last message may name the processes of its ranks */
    if (d->known && !z->all->agent->kernel.quitting)
        log_info("zygote", "%s: %s %d", z->python,
                 d->code == EXITED_SIGNAL ? "killed by signal" : "exited with", d->status);
    for (struct worker *w = a->workers.first; w; w = next) {
        next = w->next;
        if (w->zygote != z)
            continue;
        tell_exited(w, d, z);
        worker_retire(w);
    }
}

static void end_worker(struct worker *w, const struct death *d)
{
    char name[48];

    w->pipes.ended = true;
    log_info("death", "%s, process %ld, has ended: %s %d", worker_name(w, name), (long)w->state.pid,
             !d->known                  ? "unknown"
             : d->code == EXITED_SIGNAL ? "signal"
                                        : "exit status",
             d->status);
    if (w->role != WORKER_ZYGOTE)
        relay_read_rest(w);
    pipes_drain(&w->pipes);
    pipes_flush(&w->pipes);
    stacks_rest(w);
    if (w->role != WORKER_ZYGOTE)
        pipes_log(&w->pipes, buf_slice(&w->stacks.text));
    if (w->role == WORKER_ZYGOTE)
        end_zygote(w, d);
    else
        tell_exited(w, d, NULL);
    worker_retire(w);
}

void exited_process(struct agent *a, pid_t pid, const struct death *d)
{
    struct worker *w = worker_find_pid(&a->workers, pid);

    if (w)
        end_worker(w, d);
    else
        strays_add(&a->workers.strays, pid, d);
}

/* ---- an end that is overdue ---- */

static void end_overdue(struct worker *w)
{
    switch (worker_state_overdue(&w->state, w->link_fd >= 0)) {
    case WORKER_GIVE_UP:
        end_worker(w, &w->state.death);
        break;
    case WORKER_KILL:
        worker_kill(w, SIGKILL, 0);
        break;
    case WORKER_WAIT:
        break;
    }
}

/* The worker for which something is due first; NULL: nothing is due. */
static struct worker *first_due(const struct workers *all)
{
    struct worker *first = NULL;
    uint64_t due = UINT64_MAX;

    for (struct worker *w = all->first; w; w = w->next)
        if (worker_state_due(&w->state) < due) {
            due = worker_state_due(&w->state);
            first = w;
        }
    return first;
}

void exited_overdue(struct agent *a)
{
    const uint64_t now = clock_now(a->workers.io.clock);
    struct worker *w;

    a->workers.timer_due_ns = UINT64_MAX;
    while ((w = first_due(&a->workers)) && worker_state_due(&w->state) <= now)
        end_overdue(w);
    if (w)
        worker_set_timer(&a->workers, worker_state_due(&w->state));
}
