/* SPDX-License-Identifier: BSD-3-Clause */
/* node_failures.c - notices that nodes are lost or away: a connection ended, a node is silent, or
 * an engine reports it (declared in private.h). */
#include <stdio.h>
#include <sys/socket.h>

#include "base/log.h"
#include "kernel/agents/private.h"

/* How long to wait between the end of a connection and the loss of the node. The engine knows the
 * reason best, but may notice late. If the engine has ended, it can add nothing, so the wait is
 * short. */
#define ENGINE_REPORT_NS (3 * NS_PER_S)
#define ENDED_NS         (400 * NS_PER_MS)

#define CLOSED "its agent has ended, or was cut off: the connection was closed"

uint64_t node_failures_resume_ns(const struct agents *a, const struct node_link *link)
{
    const uint64_t ns = link->engine_tells ? a->resume_ns : a->untold_ns;

    return ns > a->beat.timeout_ns ? ns : a->beat.timeout_ns;
}

/* Is it shown as away before it is lost? */
static bool is_waited_for(const struct agents *a, const struct node_link *link)
{
    return link->resumes && !link->agent_ends &&
           node_failures_resume_ns(a, link) > a->beat.timeout_ns;
}

/* ---- sleep ---- */

/* A wait that users were told of, or that its agent has begun as well, does not last longer because
 * this machine is suspended meanwhile. */
static void count_sleep(struct node_link *link, uint64_t ns)
{
    if (link->node.state != NODE_UP || link->node.leaving || !(link->cut || link->node.shown_away))
        return;
    if (link->lost_at_ns)
        link->lost_at_ns = link->lost_at_ns > ns ? link->lost_at_ns - ns : 1;
    peer_times_slept(&link->times, ns);
}

/* Before a wait begins, too: a sleep that is over does not shorten it. */
static void count_sleep_all(struct agents *a)
{
    const uint64_t ns = clock_slept_since(a->out.clock, &a->slept_ns);

    if (!ns)
        return;
    log_info("agents", "this machine was suspended for %.1f s", (double)ns / (double)NS_PER_S);
    for (size_t k = 1; k < a->nodes.n; k++)
        count_sleep(a->nodes.link[k], ns);
}

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
    allowed_keys_void(&a->listen.allowed, link->key);
    allowed_keys_void(&a->listen.allowed, link->next);
    node_link_lost(link);
    agents_blobs_node_lost(&a->blobs, link->node.number);
    forget_credit(a, link->node.number);
}

/* Its agent may have left the connection without closing it, as one that dials its parent does, or
 * nobody may have told the kernel that it ended. The descriptor is ZeroMQ's. */
static void shut(struct node_link *link)
{
    if (link->router)
        router_settle(link->router); /* one that has ended meanwhile has no descriptor any more */
    if (link->fd >= 0)
        (void)shutdown(link->fd, SHUT_RDWR);
    link->fd = -1;
}

/* Until its agent resumes. */
static void cut(struct agents *a, struct node_link *link)
{
    if (link->node.state != NODE_UP || link->cut)
        return;
    log_info("agents", "the connection to %s has ended: its agent may resume", link->node.name);
    shut(link);
    if (link->cut) /* the end of the connection was told just now */
        return;
    count_sleep_all(a); /* before it counts as cut */
    tree_move_node_cut(&a->out, link);
    node_link_cut(link);
    node_failures_expect(a, link);
}

void node_failures_cut(struct agents *a, struct node_link *link)
{
    for (size_t k = 1; k < a->nodes.n; k++)
        if (a->nodes.link[k]->resumes && node_link_is_under(a->nodes.link[k], link))
            cut(a, a->nodes.link[k]);
}

static void lose(struct agents *a, struct node_link *link, const char *why)
{
    tree_move_cancel(&a->out, link);
    node_failures_lose_quietly(a, link);
    tree_move_parent_lost(&a->out, link);
    a->handler.lost(a->handler.arg, link->node.number, why);
}

/* Marks the nodes below this one before any of them is lost, because that changes the tree. Reports
 * this node first. Of those that can resume only the connection is cut. */
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

        if (child->lost_with_parent && child->resumes) {
            cut(a, child);
        } else if (child->lost_with_parent && child->node.state != NODE_LOST) {
            child->node.may_hold_connections = link->node.may_hold_connections;
            lose(a, child, below);
        }
        child->lost_with_parent = false;
    }
}

/* ---- connections ---- */

void node_failures_expect(struct agents *a, struct node_link *link)
{
    const uint64_t now = clock_now(a->out.clock);
    uint64_t at_ns;

    if (link->node.state != NODE_UP)
        return;
    count_sleep_all(a);
    at_ns = now + (link->engine_ended                  ? ENDED_NS
                   : link->agent_ends && link->resumes ? a->beat.timeout_ns
                   : link->cut                         ? node_failures_resume_ns(a, link)
                                                       : ENGINE_REPORT_NS);
    if (!link->lost_at_ns)
        link->ended_ns = now;
    if (!link->lost_at_ns || at_ns < link->lost_at_ns)
        link->lost_at_ns = at_ns;
    /* what is for one that is cut off waits for it */
    link->node.leaving = !link->cut || link->agent_ends || link->engine_ended;
}

/* Its engine may say why. */
void node_failures_ends(struct agents *a, struct node_link *link)
{
    if (link->node.number == NODE_HERE)
        return;
    link->agent_ends = true;
    if (!link->engine_report)
        link->engine_report = "its agent has got a signal, or what had started it was gone";
    node_failures_expect(a, link);
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
        if (link->move == TREE_MOVE_DONE)
            continue;
        if (link->resumes)
            node_failures_cut(a, link);
        else
            node_failures_expect(a, link);
    }
}

/* ---- silence ---- */

/* Its launcher is gone: an agent that can be reached need not wait for what it learns by itself. */
static void quit(struct agents *a, unsigned node)
{
    const struct span m = { .kind = SPAN_QUIT };
    struct err err = { "" };

    if (to_agents_nodes(&a->out, &node, 1, &m, &err) < 0)
        log_info("agents", "%s", err.text);
}

/* How long it may be silent. */
static uint64_t limit_ns(const struct agents *a, const struct node_link *link)
{
    return link->resumes ? node_failures_resume_ns(a, link) : a->beat.timeout_ns;
}

static void silent(struct agents *a, struct node_link *link)
{
    char why[160];

    snprintf(why, sizeof why, "nothing was heard from it%s%.64s for %g s",
             *link->node.address ? " at " : "", link->node.address,
             (double)limit_ns(a, link) / (double)NS_PER_S);
    link->node.may_hold_connections = true;
    node_failures_lose(a, link, why);
}

/* Nobody knows why its connection has ended, or the engine has said it. */
static void overdue(struct agents *a, struct node_link *link)
{
    const double waited_s = (double)limit_ns(a, link) / (double)NS_PER_S;
    char why[160];

    snprintf(why, sizeof why,
             link->cut && is_waited_for(a, link) ? CLOSED ", and it has not come back within %g s"
                                                 : CLOSED,
             waited_s);
    link->node.may_hold_connections = link->node.shown_away || (link->cut && !link->engine_report);
    if (link->engine_ended && !link->cut)
        quit(a, link->node.number);
    node_failures_lose(a, link, link->engine_report ? link->engine_report : why);
}

/* Not at once: the caller may be in the midst of what the loss changes. */
void node_failures_give_up(struct agents *a, struct node_link *link)
{
    if (!link->node.shown_away || link->engine_ended)
        return;
    link->engine_report = "it was away, and the interrupted cell waited for it no longer";
    link->lost_at_ns = clock_now(a->out.clock);
}

/* Nothing has come for so long that it seems to be away? Its agent is asked for a sign of life five
 * times within the timeout. */
static bool seems_away(const struct agents *a, const struct node_link *link, uint64_t now)
{
    const uint64_t known = link->cut ? now : node_link_known_ns(link, now);

    if (link->node.shown_away && link->cut)
        return true;
    if (link->way_lost)
        return peer_times_silence_ns(&link->times, known) >= a->beat.timeout_ns / 2;
    return peer_times_silent(&a->beat, &link->times, known);
}

/* Is it shown as away from now on, or no more? */
static void show(struct agents *a, struct node_link *link, uint64_t now)
{
    const bool shown_away = link->node.state == NODE_UP && is_waited_for(a, link) &&
                            seems_away(a, link, now);
    const bool news = shown_away != link->node.shown_away;

    link->node.shown_away = shown_away;
    if (shown_away) {
        const uint64_t silence_ns = peer_times_silence_ns(&link->times, now);
        const uint64_t limit = limit_ns(a, link);

        link->node.heard_ns = now > silence_ns ? now - silence_ns : 0;
        link->node.until_ns = link->lost_at_ns ? link->lost_at_ns
                                               : now + limit - clock_earlier(silence_ns, limit);
    }
    if (news && a->handler.away_changed)
        a->handler.away_changed(a->handler.arg, link->node.number);
}

static void send_beats(struct agents *a, uint64_t now)
{
    for (size_t k = 1; k < a->nodes.n; k++) {
        struct node_link *link = a->nodes.link[k];

        /* A node that dials its parent sends BEAT by itself. */
        if (link->node.state == NODE_UP && !link->cut && link->move != TREE_MOVE_DIALING &&
            peer_times_beat_due(&a->beat, &link->times, now))
            to_agents_beat(&a->out, link);
    }
}

static bool is_silent(const struct agents *a, const struct node_link *link, uint64_t now)
{
    return link->node.state == NODE_UP && !link->cut &&
           peer_times_silence_ns(&link->times, node_link_known_ns(link, now)) >= limit_ns(a, link);
}

static bool is_overdue(const struct node_link *link, uint64_t now)
{
    return link->node.state == NODE_UP && link->lost_at_ns && now >= link->lost_at_ns;
}

/* Messages of a silent node, or the RESUME of one that is cut off, may lie here unread, if this
 * machine is the slow one. */
static void hear_all(struct agents *a, uint64_t now)
{
    bool any = false;

    for (size_t k = 1; k < a->nodes.n && !any; k++)
        any = is_silent(a, a->nodes.link[k], now) || is_overdue(a->nodes.link[k], now);
    if (any && a->listen.remote)
        router_drain(a->listen.remote);
}

static void allow_late_all(struct agents *a, uint64_t late, uint64_t now)
{
    for (size_t k = 1; k < a->nodes.n; k++) {
        struct node_link *link = a->nodes.link[k];

        if (link->node.state != NODE_UP)
            continue;
        if (link->cut) /* what was late before its wait began is no part of it */
            link->lost_at_ns += clock_earlier(late, now - link->ended_ns);
        if (late >= BEAT_SUSPENDED_NS && !link->node.shown_away)
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
    count_sleep_all(a);
    hear_all(a, now);
    for (size_t k = 1; k < a->nodes.n; k++) {
        struct node_link *link = a->nodes.link[k];

        if (is_overdue(link, now))
            overdue(a, link);
        else if (is_silent(a, link, now))
            silent(a, link);
        else
            show(a, link, now);
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
    a->slept_ns = clock_slept(a->out.clock);
    loop_timer_again(a->beat_timer, beat_wait(&a->beat));
}
