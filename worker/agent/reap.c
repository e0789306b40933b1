/* SPDX-License-Identifier: BSD-3-Clause */
/* reap.c - waits for workers' processes, and kills all of them at the end (declared in private.h).
 */
#include "worker/agent/private.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/process.h"
#include "worker/agent/agent.h"

#define KILL_WAIT_NS (5 * NS_PER_S)
#define STOPS_NS     (200 * NS_PER_MS) /* a worker may be stopped for a moment only */
#define TERM_WAIT_NS (2 * NS_PER_S)    /* how long home and ranks may take to end by themselves */

static struct death death_of(int status)
{
    if (WIFSIGNALED(status))
        return (struct death){ true, EXITED_SIGNAL, WTERMSIG(status) };
    return (struct death){ true, EXITED_STATUS, WEXITSTATUS(status) };
}

/* Kills its process group before waitpid(): until then no other process can get its number. */
static int reap_one(struct agent *a, pid_t pid)
{
    struct death d;
    int status;

    if (worker_find_pid(&a->workers, pid))
        (void)process_kill_group(pid, SIGKILL);
    if (waitpid(pid, &status, WNOHANG) != pid)
        return -1;
    d = death_of(status);
    exited_process(a, pid, &d);
    return 0;
}

/* Were workers stopped, as by SIGSTOP, or do stopped ones go on? Forgets it. */
static bool some_were_stopped(struct agent *a)
{
    bool some = false;

    for (;;) {
        siginfo_t info = { .si_pid = 0 };

        if (waitid(P_ALL, 0, &info, WSTOPPED | WCONTINUED | WNOHANG) < 0 || info.si_pid == 0)
            return some;
        some = some || worker_find_pid(&a->workers, info.si_pid);
    }
}

/* Tells the kernel, which has not asked. */
static void tell_stops(void *agent)
{
    const struct span m = { .kind = SPAN_GAUGES };

    node_usage_all(agent, &m);
}

static void watch_stops(struct agent *a)
{
    if (some_were_stopped(a))
        loop_timer_again(a->workers.stops, STOPS_NS);
}

static void reap_children(void *agent)
{
    watch_stops(agent);
    for (;;) {
        siginfo_t info = { .si_pid = 0 };

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        if (reap_one(agent, info.si_pid) < 0)
            return;
    }
}

static void ends_due(void *arg)
{
    reap_children(arg);
    exited_overdue(arg);
}

int reap_start(struct agent *a, struct err *err)
{
    if (!loop_signal(a->kernel.loop, SIGCHLD, reap_children, a, err) ||
        !(a->workers.timer = loop_timer(a->kernel.loop, LOOP_OFF, 0, ends_due, a, err)) ||
        !(a->workers.stops = loop_timer(a->kernel.loop, LOOP_OFF, 0, tell_stops, a, err)))
        return -1;
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
    const uint64_t until_ns = clock_now(clock) + TERM_WAIT_NS;
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

void end_all_workers(struct agent *a)
{
    const struct clock *clock = loop_clock(a->kernel.loop);
    uint64_t until_ns;

    a->kernel.quitting = true;
    let_end(a);
    until_ns = clock_now(clock) + KILL_WAIT_NS;
    for (struct worker *w = a->workers.first; w; w = w->next)
        worker_signal(w, SIGKILL);
    while (!wait_for_all() && clock_now(clock) < until_ns) {
        orphans_kill(0);
        (void)poll(NULL, 0, 5);
    }
}
