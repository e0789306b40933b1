/* node_failures.c - who is gone: children that ended, connections that ended, nodes that are
 * silent. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/orphans.h"
#include "kernel/agents/room.h"

#define SWEEPS   20 /* looks for what a lost agent left; its workers take a moment to die */
#define SWEEP_NS (100 * NS_PER_MS)
/* a closed connection says less than the engine, which may be slow to notice */
#define WORDS_NS (3 * NS_PER_S)
#define DOOM_NS  (400 * NS_PER_MS) /* one that has ended has said all that it knows */

/* ---- nodes ---- */

static void forget_credit(struct agents *a, unsigned node)
{
    for (size_t k = a->credit.n; k > 0; k--) {
        const uint32_t worker = a->credit.row[k - 1].worker;

        if (node_table_where(&a->nodes, worker) == node)
            credit_forget(&a->credit, worker);
    }
}

void node_failures_lose_quietly(struct agents *a, struct node *l)
{
    if (l->info.state == NODE_LOST)
        return;
    engine_nodes_lost(a, l);
    node_lost(l);
    blob_schedule_lost(a->blobs, l->number);
    (void)agents_blobs_go_on(a);
    forget_credit(a, l->number);
}

static void lose(struct agents *a, struct node *l, const char *why)
{
    reparent_cancel(a, l);
    node_failures_lose_quietly(a, l);
    log_info("agents", "node %u (%s) is lost: %s", l->number, l->info.name, why);
    reparent_parent_lost(a, l);
    a->handler.lost(a->handler.arg, l->number, why);
}

/* Whoever is below is marked while the chain of parents is whole; the node itself is named
 * first. */
void node_failures_lose(struct agents *a, struct node *l, const char *why)
{
    const size_t n = a->nodes.n;
    char below[384];

    if (l->info.state == NODE_LOST)
        return;
    for (size_t k = l->number + 1; k < n; k++)
        a->nodes.node[k]->going = node_is_under(a->nodes.node[k], l);
    snprintf(below, sizeof below, "it was reached by way of %.255s, which is gone", l->info.name);
    lose(a, l, why);
    for (size_t k = l->number + 1; k < n; k++) {
        struct node *child = a->nodes.node[k];

        if (child->going && child->info.state != NODE_LOST)
            lose(a, child, below);
        child->going = false;
    }
}

/* ---- connections ---- */

void node_failures_expect(struct agents *a, struct node *l)
{
    const struct engine_run *run = l ? engine_run_get(a, l->info.engine) : NULL;
    uint64_t due_ns;

    if (!l || l->info.state != NODE_UP)
        return;
    due_ns = agents_now(a) + (run && !run->over ? WORDS_NS : DOOM_NS);
    if (!l->doomed_ns || due_ns < l->doomed_ns)
        l->doomed_ns = due_ns;
}

void node_failures_disconnected(void *agents, struct router *r, int fd)
{
    struct agents *a = agents;

    for (size_t k = 0; fd >= 0 && k < a->nodes.n; k++) {
        struct node *l = a->nodes.node[k];

        if (l->router != r || l->fd != fd)
            continue;
        l->fd = -1;
        /* one that dials its parent keeps its own connection until we speak by way of that */
        if (l->reparent != REPARENT_DONE)
            node_failures_expect(a, l);
    }
}

static void doomed(struct agents *a, struct node *l)
{
    const struct engine_run *run = engine_run_get(a, l->info.engine);
    struct buf words = BUF_INIT;

    if (run && run->over && engine_process_words(run->process, &words) == 0 && words.n)
        node_failures_lose(a, l, words.p);
    else
        node_failures_lose(a, l, "its agent has ended, or was cut off: the connection was closed");
    buf_release(&words);
}

/* ---- silence ---- */

static void silent(struct agents *a, struct node *l)
{
    char why[160];

    snprintf(why, sizeof why, "nothing was heard from it%s%.64s for %g s",
             *l->info.address ? " at " : "", l->info.address,
             (double)a->beat.timeout_ns / (double)NS_PER_S);
    node_failures_lose(a, l, why);
}

static void send_beats(struct agents *a, uint64_t now)
{
    const struct span beat = { .kind = SPAN_BEAT, .v[F_BEAT_SENT].u64 = now };
    unsigned *due = agents_list(a);
    struct err err = { "" };
    size_t n = 0;

    for (size_t k = 1; due && k < a->nodes.n; k++) {
        struct node *l = a->nodes.node[k];

        /* Who dials its parent beats by itself. */
        if (l->info.state == NODE_UP && l->reparent != REPARENT_DIALING &&
            pulse_is_due(&a->beat, &l->pulse, now))
            due[n++] = l->number;
    }
    if (n && agents_send_nodes(a, due, n, &beat, &err) < 0)
        log_info("agents", "%s", err.text);
}

static bool is_silent(const struct agents *a, const struct node *l, uint64_t now)
{
    return l->info.state == NODE_UP && pulse_is_lost(&a->beat, &l->pulse, node_known_ns(l, now));
}

/* What somebody said may lie here unread, where this machine is busier than the others. */
static void hear_all(struct agents *a, uint64_t now)
{
    bool any = false;

    for (size_t k = 1; k < a->nodes.n && !any; k++)
        any = is_silent(a, a->nodes.node[k], now);
    if (any && a->wire)
        router_drain(a->wire);
}

static void excuse_all(struct agents *a, uint64_t late, uint64_t now)
{
    for (size_t k = 1; k < a->nodes.n; k++) {
        struct node *l = a->nodes.node[k];

        if (l->info.state != NODE_UP)
            continue;
        if (late >= BEAT_SLEPT_NS)
            pulse_start(&l->pulse, now);
        else if (meter_moved(&l->meter)) /* a piece of something large, not yet its end */
            l->pulse.heard = now;
        else
            pulse_forgive(&l->pulse, late, now);
    }
}

/* Parents come before their children, who go with them. */
static void look(struct loop *loop, void *arg)
{
    struct agents *a = arg;
    const uint64_t now = agents_now(a), late = beat_look(&a->beat, now);

    (void)loop;
    if (late >= BEAT_SLEPT_NS)
        log_warn("agents",
                 "this machine was asleep, stopped, or too busy: silence is counted anew");
    excuse_all(a, late, now);
    hear_all(a, now);
    for (size_t k = 1; k < a->nodes.n; k++) {
        struct node *l = a->nodes.node[k];

        if (l->info.state == NODE_UP && l->doomed_ns && now >= l->doomed_ns)
            doomed(a, l);
        else if (is_silent(a, l, now))
            silent(a, l);
    }
    send_beats(a, now);
    engine_runs_look(a, now);
    loop_timer_again(a->look, beat_wait(&a->beat));
}

/* ---- children ---- */

/* Everything that is ours, but for engines and a new agent. */
static void kill_orphans(const struct agents *a)
{
    pid_t *spare = calloc(a->runs + 1, sizeof *spare);
    size_t n = 0;

    if (!spare)
        return;
    if (a->local.pid > 0)
        spare[n++] = a->local.pid;
    for (size_t k = 0; k < a->runs; k++)
        if (a->run[k] && engine_process_pid(a->run[k]->process) > 0)
            spare[n++] = engine_process_pid(a->run[k]->process);
    orphans_kill_but(spare, n);
    free(spare);
}

static void here_ended(struct agents *a, int status)
{
    char why[320];

    router_drain(a->here); /* what it said last comes first */
    local_agent_ended(&a->local, status, why, sizeof why);
    local_blobs_release(&a->local_blobs);
    kill_orphans(a);
    a->sweeps = SWEEPS;
    loop_timer_again(a->sweep, SWEEP_NS);
    node_failures_lose(a, node_table_get(&a->nodes, NODE_HERE), why);
}

static void sweep(struct loop *loop, void *arg)
{
    struct agents *a = arg;

    (void)loop;
    kill_orphans(a);
    if (--a->sweeps > 0)
        loop_timer_again(a->sweep, SWEEP_NS);
}

static void child_ended(struct loop *loop, void *arg)
{
    struct agents *a = arg;
    int status;
    pid_t pid;

    (void)loop;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == a->local.pid)
            here_ended(a, status);
        else
            (void)engine_runs_child(a, pid, status);
}

int node_failures_watch(struct agents *a, struct err *err)
{
    if (!(a->sweep = loop_timer(a->loop, SWEEP_NS, 0, sweep, a, err)) ||
        !(a->look = loop_timer(a->loop, SWEEP_NS, 0, look, a, err)) ||
        !(a->child = loop_signal(a->loop, SIGCHLD, child_ended, a, err)))
        return -1;
    loop_timer_off(a->sweep);
    loop_timer_off(a->look); /* until there is a node to look at */
    return 0;
}

void node_failures_unwatch(struct agents *a)
{
    watch_stop(a->child);
    watch_stop(a->sweep);
    watch_stop(a->look);
    a->child = a->sweep = a->look = NULL;
}
