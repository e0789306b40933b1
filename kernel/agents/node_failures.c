/* SPDX-License-Identifier: BSD-3-Clause */
/* node_failures.c - notices that nodes are lost: a connection ended, a node is silent, or an engine
 * reports it (declared in private.h). */
#include <stdio.h>

#include "base/log.h"
#include "kernel/agents/private.h"
#include "protocol/span_fields.h"

/* How long to wait between the end of a connection and the loss of the node. The engine knows the
 * reason best, but may notice late. If the engine has ended, it can add nothing, so the wait is
 * short. */
#define ENGINE_REPORT_NS (3 * NS_PER_S)
#define ENDED_NS         (400 * NS_PER_MS)

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
    allowed_keys_block(&a->listen.allowed, link->key);
    node_link_lost(link);
    agents_blobs_node_lost(&a->blobs, link->node.number);
    forget_credit(a, link->node.number);
}

static void lose(struct agents *a, struct node_link *link, const char *why)
{
    reparent_cancel(&a->out, link);
    node_failures_lose_quietly(a, link);
    reparent_parent_lost(&a->out, link);
    a->handler.lost(a->handler.arg, link->node.number, why);
}

/* Marks the nodes below this one before any of them is lost, because that changes the tree. Reports
 * this node first. */
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

        if (child->lost_with_parent && child->node.state != NODE_LOST) {
            child->node.silent = link->node.silent;
            lose(a, child, below);
        }
        child->lost_with_parent = false;
    }
}

/* ---- connections ---- */

void node_failures_expect(struct agents *a, struct node_link *link)
{
    uint64_t at_ns;

    if (link->node.state != NODE_UP)
        return;
    at_ns = clock_now(a->out.clock) + (link->engine_ended ? ENDED_NS : ENGINE_REPORT_NS);
    if (!link->lost_at_ns || at_ns < link->lost_at_ns)
        link->lost_at_ns = at_ns;
}

void node_failures_disconnected(void *agents, struct router *r, int fd)
{
    struct agents *a = agents;

    for (size_t k = 0; fd >= 0 && k < a->nodes.n; k++) {
        struct node_link *link = a->nodes.link[k];

        if (link->router != r || link->fd != fd)
            continue;
        link->fd = -1;
        /* a node that dials its parent closes this connection when the first message comes
         * through the parent */
        if (link->reparent != REPARENT_DONE)
            node_failures_expect(a, link);
    }
}

/* ---- silence ---- */

static void silent(struct agents *a, struct node_link *link)
{
    char why[160];

    snprintf(why, sizeof why, "nothing was heard from it%s%.64s for %g s",
             *link->node.address ? " at " : "", link->node.address,
             (double)a->beat.timeout_ns / (double)NS_PER_S);
    link->node.silent = true;
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

        /* A node that dials its parent sends BEAT by itself. */
        if (link->node.state == NODE_UP && link->reparent != REPARENT_DIALING &&
            peer_times_beat_due(&a->beat, &link->times, now))
            due[n++] = link->node.number;
    }
    if (n && to_agents_nodes(&a->out, due, n, &beat, &err) < 0)
        log_info("agents", "%s", err.text);
}

static bool is_silent(const struct agents *a, const struct node_link *link, uint64_t now)
{
    return link->node.state == NODE_UP &&
           peer_times_lost(&a->beat, &link->times, node_link_known_ns(link, now));
}

/* Messages of a silent node may lie here unread, if this machine is the slow one. */
static void hear_all(struct agents *a, uint64_t now)
{
    bool any = false;

    for (size_t k = 1; k < a->nodes.n && !any; k++)
        any = is_silent(a, a->nodes.link[k], now);
    if (any && a->listen.remote)
        router_drain(a->listen.remote);
}

static void allow_late_all(struct agents *a, uint64_t late, uint64_t now)
{
    for (size_t k = 1; k < a->nodes.n; k++) {
        struct node_link *link = a->nodes.link[k];

        if (link->node.state != NODE_UP)
            continue;
        if (late >= BEAT_SUSPENDED_NS)
            peer_times_start(&link->times, now);
        else if (meter_moved(&link->meter)) /* a part of a large message */
            peer_times_heard(&link->times, now);
        else
            peer_times_allow_late(&link->times, late, now);
    }
}

/* Parents have lower numbers than their children, who are lost with them. */
static void check_beats(void *arg)
{
    struct agents *a = arg;
    const uint64_t now = clock_now(a->out.clock), late = beat_check(&a->beat, now);

    if (late >= BEAT_SUSPENDED_NS)
        log_warn("agents",
                 "this machine was asleep, stopped, or too busy: silence is counted anew");
    allow_late_all(a, late, now);
    hear_all(a, now);
    for (size_t k = 1; k < a->nodes.n; k++) {
        struct node_link *link = a->nodes.link[k];

        if (link->node.state == NODE_UP && link->lost_at_ns && now >= link->lost_at_ns)
            node_failures_lose(
                a, link,
                link->engine_report
                    ? link->engine_report
                    : "its agent has ended, or was cut off: the connection was closed");
        else if (is_silent(a, link, now))
            silent(a, link);
    }
    send_beats(a, now);
    loop_timer_again(a->beat_timer, beat_wait(&a->beat));
}

int node_failures_watch(struct agents *a, struct err *err)
{
    return (a->beat_timer = loop_timer(a->loop, LOOP_OFF, 0, check_beats, a, err)) ? 0 : -1;
}

void node_failures_start(struct agents *a)
{
    beat_start(&a->beat, clock_now(a->out.clock));
    loop_timer_again(a->beat_timer, beat_wait(&a->beat));
}
