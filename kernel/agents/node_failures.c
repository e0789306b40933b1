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

void node_failures_lose_quietly(struct agents *a, struct node_link *link)
{
    if (link->node.state == NODE_LOST)
        return;
    engine_nodes_lost(a, link);
    node_link_lost(link);
    agents_blobs_node_lost(&a->blobs, link->node.number);
    forget_credit(a, link->node.number);
}

static void lose(struct agents *a, struct node_link *link, const char *why)
{
    reparent_cancel(&a->out, link);
    node_failures_lose_quietly(a, link);
    log_info("agents", "node %u (%s) is lost: %s", link->node.number, link->node.name, why);
    reparent_parent_lost(&a->out, link);
    a->handler.lost(a->handler.arg, link->node.number, why);
}

/* Whoever is below is marked while the chain of parents is whole; the node itself is named
 * first. */
void node_failures_lose(struct agents *a, struct node_link *link, const char *why)
{
    const size_t n = a->nodes.n;
    char below[384];

    if (link->node.state == NODE_LOST)
        return;
    for (size_t k = link->node.number + 1; k < n; k++)
        a->nodes.link[k]->lost_with_parent = node_link_is_under(a->nodes.link[k], link);
    snprintf(below, sizeof below, "it was reached by way of %.255s, which is gone",
             link->node.name);
    lose(a, link, why);
    for (size_t k = link->node.number + 1; k < n; k++) {
        struct node_link *child = a->nodes.link[k];

        if (child->lost_with_parent && child->node.state != NODE_LOST)
            lose(a, child, below);
        child->lost_with_parent = false;
    }
}

/* ---- connections ---- */

void node_failures_expect(struct agents *a, struct node_link *link)
{
    const struct engine_run *run = link ? engine_run_get(a, link->node.engine) : NULL;
    uint64_t due_ns;

    if (!link || link->node.state != NODE_UP)
        return;
    due_ns = agents_now(a) + (run && !run->over ? WORDS_NS : DOOM_NS);
    if (!link->lost_at_ns || due_ns < link->lost_at_ns)
        link->lost_at_ns = due_ns;
}

void node_failures_disconnected(void *agents, struct router *r, int fd)
{
    struct agents *a = agents;

    for (size_t k = 0; fd >= 0 && k < a->nodes.n; k++) {
        struct node_link *link = a->nodes.link[k];

        if (link->router != r || link->fd != fd)
            continue;
        link->fd = -1;
        /* one that dials its parent keeps its own connection until we speak by way of that */
        if (link->reparent != REPARENT_DONE)
            node_failures_expect(a, link);
    }
}

static void doomed(struct agents *a, struct node_link *link)
{
    const struct engine_run *run = engine_run_get(a, link->node.engine);
    struct buf words = BUF_INIT;

    if (run && run->over && engine_process_words(run->process, &words) == 0 && words.n)
        node_failures_lose(a, link, words.p);
    else
        node_failures_lose(a, link,
                           "its agent has ended, or was cut off: the connection was closed");
    buf_release(&words);
}

/* ---- silence ---- */

static void silent(struct agents *a, struct node_link *link)
{
    char why[160];

    snprintf(why, sizeof why, "nothing was heard from it%s%.64s for %g s",
             *link->node.address ? " at " : "", link->node.address,
             (double)a->beat.timeout_ns / (double)NS_PER_S);
    node_failures_lose(a, link, why);
}

static void send_beats(struct agents *a, uint64_t now)
{
    const struct span beat = { .kind = SPAN_BEAT, .v[F_BEAT_SENT].u64 = now };
    unsigned *due = to_agents_list(&a->out);
    struct err err = { "" };
    size_t n = 0;

    for (size_t k = 1; due && k < a->nodes.n; k++) {
        struct node_link *link = a->nodes.link[k];

        /* Who dials its parent beats by itself. */
        if (link->node.state == NODE_UP && link->reparent != REPARENT_DIALING &&
            pulse_is_due(&a->beat, &link->pulse, now))
            due[n++] = link->node.number;
    }
    if (n && to_agents_nodes(&a->out, due, n, &beat, &err) < 0)
        log_info("agents", "%s", err.text);
}

static bool is_silent(const struct agents *a, const struct node_link *link, uint64_t now)
{
    return link->node.state == NODE_UP &&
           pulse_is_lost(&a->beat, &link->pulse, node_link_known_ns(link, now));
}

/* What somebody said may lie here unread, where this machine is busier than the others. */
static void hear_all(struct agents *a, uint64_t now)
{
    bool any = false;

    for (size_t k = 1; k < a->nodes.n && !any; k++)
        any = is_silent(a, a->nodes.link[k], now);
    if (any && a->wire)
        router_drain(a->wire);
}

static void excuse_all(struct agents *a, uint64_t late, uint64_t now)
{
    for (size_t k = 1; k < a->nodes.n; k++) {
        struct node_link *link = a->nodes.link[k];

        if (link->node.state != NODE_UP)
            continue;
        if (late >= BEAT_SLEPT_NS)
            pulse_start(&link->pulse, now);
        else if (meter_moved(&link->meter)) /* a piece of something large, not yet its end */
            link->pulse.heard = now;
        else
            pulse_forgive(&link->pulse, late, now);
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
        struct node_link *link = a->nodes.link[k];

        if (link->node.state == NODE_UP && link->lost_at_ns && now >= link->lost_at_ns)
            doomed(a, link);
        else if (is_silent(a, link, now))
            silent(a, link);
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
    local_blobs_release(&a->blobs.local);
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
