/* reap.c - reports how workers ended, and kills all of them at the end (declared in parts.h). */
#include "worker/agent/parts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/process.h"
#include "base/utf8.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/net/join.h"

#define LAST_LINES   20u
#define EVERYBODY_NS (5 * NS_PER_S)
#define POLITE_NS    (2 * NS_PER_S) /* how long home and ranks may take to end by themselves */

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
        log_error("reap", "out of memory: who shares the GPU is not told");
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
        log_error("reap", "out of memory: a death is told without its cause");
    buf_release(&cause);
    publish(w, &o);
}

void reap_never_started(struct agent *a, unsigned id, const char *why)
{
    struct exited o = { a, id, 0, DEATH_UNKNOWN, false, BUF_INIT, BUF_INIT, BUF_INIT };

    if (utf8_add_short(&o.cause, slice_text(why), 4096) < 0)
        log_error("reap", "out of memory: worker %u was not started", id);
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
    log_debug("reap", "%s: end", worker_name(w, name));
    if (w->role != WORKER_ZYGOTE)
        relay_read_rest(w);
    pipes_drain(&w->pipes);
    pipes_flush(&w->pipes);
    stacks_rest(w);
    if (w->role == WORKER_ZYGOTE)
        end_zygote(w, d);
    else
        tell_exited(w, d, NULL);
    worker_retire(w);
}

/* ---- children ---- */

static struct death death_of(int status)
{
    if (WIFSIGNALED(status))
        return (struct death){ true, EXITED_SIGNAL, WTERMSIG(status) };
    return (struct death){ true, EXITED_STATUS, WEXITSTATUS(status) };
}

/* Kills its process group before waitpid(): until then no other process can get its number. */
static int reap_one(struct agent *a, pid_t pid)
{
    struct worker *w = worker_find_pid(&a->workers, pid);
    struct death d;
    int status;

    if (w)
        (void)process_kill_group(pid, SIGKILL);
    if (waitpid(pid, &status, WNOHANG) != pid)
        return -1;
    d = death_of(status);
    if (w)
        end_worker(w, &d);
    else
        strays_add(&a->workers.strays, pid, &d);
    return 0;
}

static void reap_children(struct agent *a)
{
    for (;;) {
        siginfo_t info = { .si_pid = 0 };

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        if (reap_one(a, info.si_pid) < 0)
            return;
    }
}

static void child_ended(void *arg)
{
    reap_children(arg);
}

/* ---- an end that is overdue ---- */

static void end_overdue(struct worker *w)
{
    switch (worker_state_overdue(&w->state, w->link_fd >= 0)) {
    case WORKER_GIVE_UP:
        end_worker(w, &w->state.death);
        break;
    case WORKER_KILL:
        if (!w->state.broke[0])
            snprintf(w->state.broke, sizeof w->state.broke,
                     "it closed its connection to the agent");
        worker_signal(w, SIGKILL);
        worker_expect_end(w);
        break;
    case WORKER_WAIT:
        break;
    }
}

/* The worker whose end is due first; NULL: no end is due. */
static struct worker *first_due(const struct workers *all)
{
    struct worker *first = NULL;

    for (struct worker *w = all->first; w; w = w->next)
        if (w->state.end_due_ns != UINT64_MAX &&
            (!first || w->state.end_due_ns < first->state.end_due_ns))
            first = w;
    return first;
}

static void ends_due(void *arg)
{
    struct agent *a = arg;
    const uint64_t now = clock_now(loop_clock(a->workers.io.loop));
    struct worker *w;

    a->workers.end_due_ns = UINT64_MAX;
    reap_children(a);
    while ((w = first_due(&a->workers)) && w->state.end_due_ns <= now)
        end_overdue(w);
    if (w)
        worker_set_end_timer(&a->workers, w->state.end_due_ns);
}

int reap_start(struct agent *a, struct err *err)
{
    if (!loop_signal(a->kernel.loop, SIGCHLD, child_ended, a, err) ||
        !(a->workers.end_timer = loop_timer(a->kernel.loop, 0, 0, ends_due, a, err)))
        return -1;
    loop_timer_off(a->workers.end_timer);
    return 0;
}

/* ---- the end ---- */

/* True when no child is left. */
static bool wait_for_all(void)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return pid < 0 && errno == ECHILD;
}

static bool has_ended(const struct worker *w)
{
    siginfo_t info = { .si_pid = 0 };

    return waitid(P_PID, (id_t)w->state.pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
           info.si_pid == w->state.pid;
}

/* Lets home and ranks end as Python does, with the handlers of atexit. A worker that is stuck in C,
 * or takes longer, is killed afterwards. */
static void let_end(const struct agent *a)
{
    const struct clock *clock = loop_clock(a->kernel.loop);
    const uint64_t until_ns = clock_now(clock) + POLITE_NS;
    bool waiting = true;

    for (struct worker *w = a->workers.first; w; w = w->next)
        if (w->role != WORKER_ZYGOTE && w->state.pid > 0 && w->state.ready)
            (void)kill(w->state.pid, SIGTERM); /* only it: it ends its own children */
    while (waiting && clock_now(clock) < until_ns) {
        waiting = false;
        for (const struct worker *w = a->workers.first; w && !waiting; w = w->next)
            waiting = w->role != WORKER_ZYGOTE && w->state.pid > 0 && w->state.ready &&
                      !has_ended(w);
        if (waiting)
            (void)poll(NULL, 0, 5);
    }
}

void reap_everybody(struct agent *a)
{
    const struct clock *clock = loop_clock(a->kernel.loop);
    uint64_t until_ns;

    a->kernel.quitting = true;
    let_end(a);
    until_ns = clock_now(clock) + EVERYBODY_NS;
    for (struct worker *w = a->workers.first; w; w = w->next)
        worker_signal(w, SIGKILL);
    while (!wait_for_all() && clock_now(clock) < until_ns) {
        orphans_kill(0);
        (void)poll(NULL, 0, 5);
    }
}
