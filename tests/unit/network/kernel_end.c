/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_end.c - the kernel's code for its agents (kernel/agents), with the simulated network in
 * place of the ROUTER. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/span_fields.h"
#include "tests/unit/network/fleet.h"

#define ENGINE 1u

static struct fleet *fleet; /* one at a time: the router has no argument */

/* ---- nodes ---- */

struct node_link *kernel_end_link(const struct fleet *f, unsigned i)
{
    return node_table_get(&f->kernel.agents.nodes, f->kernel.node[i].number);
}

static unsigned agent_of(const struct fleet *f, unsigned node)
{
    unsigned i = 0;

    while (i < FLEET_AGENTS && f->kernel.node[i].number != node)
        i++;
    return i;
}

const struct session *kernel_end_session(const struct fleet *f, unsigned i)
{
    return &kernel_end_link(f, i)->session;
}

bool kernel_end_is_up(const struct fleet *f, unsigned i)
{
    return !f->kernel.node[i].lost && node_link_is_ready(kernel_end_link(f, i));
}

void kernel_end_start(struct fleet *f, unsigned i, const unsigned char *key, bool in_tree)
{
    struct node_end *n = &f->kernel.node[i];
    struct agents *a = &f->kernel.agents;
    struct err err = { "" };
    struct node_link *link;

    *n = (struct node_end){ .turn = n->turn + 1, .number = (unsigned)a->nodes.n };
    if (node_table_add(&a->nodes, 1, ENGINE, &err) < 0 ||
        allowed_keys_reserve(&a->listen.allowed, 1) < 0)
        abort();
    link = kernel_end_link(f, i);
    link->node.index = i;
    link->siblings = in_tree ? FLEET_AGENTS : 0;
    allowed_keys_add(&a->listen.allowed, key, ENGINE, n->number);
    memcpy(link->key, key, KEY_SIZE);
}

struct fleet *kernel_end_fleet(void)
{
    return fleet;
}

struct agents *kernel_end_agents(void)
{
    return &fleet->kernel.agents;
}

void kernel_end_ended(struct fleet *f, unsigned i)
{
    if (kernel_end_link(f, i)->node.state == NODE_ASKED)
        node_failures_lose(&f->kernel.agents, kernel_end_link(f, i), "it has ended");
}

void kernel_end_forget(struct fleet *f)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++) {
        kernel_end_link(f, i)->removed = true;
        node_failures_lose_quietly(&f->kernel.agents, kernel_end_link(f, i));
        f->kernel.node[i].lost = true;
    }
}

/* ---- out ---- */

static int send_all(struct router *r, struct slice identity, struct slice route, zmq_msg_t *body,
                    struct err *err)
{
    const struct slice bytes = slice_of(zmq_msg_data(body), zmq_msg_size(body));
    struct frame *frame;
    unsigned number;
    struct wire *w;

    (void)r;
    memcpy(&number, identity.p, sizeof number);
    w = network_wire(&fleet->net, number);
    if (!w || w->closed[SIDE_KERNEL])
        return err_set(err, "Host unreachable");
    frame = frame_create(FRAME_SPAN, route, bytes);
    frame->two = true;
    network_send(&fleet->net, w, SIDE_KERNEL, frame, fleet->now);
    return 0;
}

static void nothing(struct router *r)
{
    (void)r;
}

static const struct router_ops ops = { send_all, nothing, nothing, nothing };

void kernel_end_order(struct fleet *f, uint64_t size)
{
    struct span m = { .kind = SPAN_LOGS, .v[F_LOGS_FLAGS].u64 = FLEET_RANKS };
    unsigned nodes[FLEET_AGENTS];
    struct err err = { "" };
    size_t n = 0;

    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (!f->kernel.node[i].lost) {
            if (session_is_full(kernel_end_session(f, i))) {
                f->counts.full++;
                return;
            }
            nodes[n++] = f->kernel.node[i].number;
        }
    m.v[F_LOGS_AT].u64 = ++f->kernel.orders;
    m.v[F_LOGS_END].u64 = size;
    letter_size = size;
    if (n && to_agents_nodes(&f->kernel.agents.out, nodes, n, &m, &err) < 0)
        check_fail(f, "an order can't be sent: %s", err.text);
    letter_size = 0;
}

/* ---- in ---- */

static void knock(struct fleet *f, struct wire *w)
{
    const enum key_verdict v = allowed_keys_ask(&f->kernel.agents.listen.allowed, w->key, &w->node);
    const bool good = v == KEY_ALLOWED || (v == KEY_VOID && planted == PLANTED_VOIDED_KEY);

    if (good)
        check_admitted(f, w);
    network_send(&f->net, w, SIDE_KERNEL,
                 frame_create(good ? FRAME_ADMITTED : FRAME_REFUSED, slice_text(""),
                              slice_text("")),
                 f->now);
}

static bool is_identity(const struct node_link *link, unsigned number)
{
    return link->identity_size == sizeof number &&
           memcmp(link->identity, &number, sizeof number) == 0;
}

/* Whom the kernel hears, by way of whomever. What is read after the end of a connection was said
 * before it. */
static void heard(struct fleet *f, const struct wire *w, struct slice bundle)
{
    struct bundle_entry e;

    while (bundle_next(&bundle, &e)) {
        const unsigned i = agent_of(f, e.node);

        if (i < FLEET_AGENTS && !kernel_end_link(f, i)->cut &&
            is_identity(node_link_top(kernel_end_link(f, i)), w->number))
            check_heard(f, SIDE_KERNEL, i);
    }
}

static bool is_from(struct slice bundle, uint32_t node)
{
    struct bundle_entry e;

    return bundle_next(&bundle, &e) && e.node == node;
}

static void arrive(struct fleet *f, const struct wire *w, const struct frame *frame)
{
    const struct node_link *link = node_table_get(&f->kernel.agents.nodes, w->node);
    const struct slice bundle = slice_of(frame->bytes, frame->n);
    char user[AGENTS_ZAP_USER_SIZE];
    struct router_message a = { .router = &f->kernel.router,
                                .identity = slice_of(&w->number, sizeof w->number),
                                .user = user,
                                .fd = (int)w->number,
                                .frames = 1 };

    agents_zap_user(w->node, planted == PLANTED_KEY_AT_KNOCK ? link->next : w->key, user);
    if (planted == PLANTED_OLD_CONNECTION && is_from(bundle, w->node) && link->identity_size)
        a.identity = slice_of(link->identity, link->identity_size);
    a.first = a.last = bundle;
    from_agents_received(&f->kernel.agents, &a);
}

/* Has the kernel taken it? Then the key that HELLO or RESUME names is the one that holds. */
static void pass_on(struct fleet *f, struct wire *w, const struct frame *frame)
{
    const struct node_link *link = node_table_get(&f->kernel.agents.nodes, w->node);
    unsigned char was[KEY_SIZE];
    const unsigned i = agent_of(f, w->node);

    memcpy(was, link->next, KEY_SIZE);
    heard(f, w, slice_of(frame->bytes, frame->n));
    arrive(f, w, frame);
    if (i == FLEET_AGENTS || memcmp(link->next, was, KEY_SIZE) == 0)
        return;
    if (link->node.state == NODE_UP) {
        check_resumed(f, w, i, link->next);
        check_heard(f, SIDE_KERNEL, i);
        w->live = true;
        f->counts.resumes++;
    }
}

/* A child that has a parent may leave this connection without closing it. */
static void left(struct fleet *f)
{
    for (struct wire *w = f->net.first; w; w = w->next) {
        const unsigned i = w->live ? agent_of(f, w->node) : FLEET_AGENTS;

        if (i < FLEET_AGENTS && kernel_end_link(f, i)->move == TREE_MOVE_DONE) {
            w->live = false;
            f->counts.children++;
        }
    }
}

void kernel_end_take(struct fleet *f, struct wire *w, const struct frame *frame)
{
    if (frame->kind == FRAME_KNOCK) {
        if (!w->closed[SIDE_KERNEL])
            knock(f, w);
    } else if (frame->kind != FRAME_END) {
        pass_on(f, w, frame);
        left(f);
    } else if (!w->closed[SIDE_KERNEL]) {
        network_close(&f->net, w, SIDE_KERNEL, f->now);
        node_failures_disconnected(&f->kernel.agents, &f->kernel.router, (int)w->number);
    }
}

static void on_message(void *arg, unsigned node, uint32_t worker, const struct span *m)
{
    const uint64_t rank = m->v[F_LOGS_FLAGS].u64 % 256;
    struct fleet *f = arg;
    const unsigned i = agent_of(f, node);

    (void)worker;
    if (m->kind != SPAN_LOGS) /* such as the late answer of a child that has lost its parent */
        return;
    if (i == FLEET_AGENTS) {
        check_fail(f, "a line came from node %u, which was lost", node);
        return;
    }
    check_letter(f, SIDE_KERNEL, i, m);
    if (rank < FLEET_RANKS)
        f->kernel.node[i].lines[rank] = m->v[F_LOGS_AT].u64;
    if (f->carried && i == 0)
        f->carried(f->carried_arg, SIDE_KERNEL);
}

static void on_lost(void *arg, unsigned node, const char *why)
{
    struct fleet *f = arg;
    const unsigned i = agent_of(f, node);
    char what[300];

    if (i == FLEET_AGENTS || f->kernel.node[i].lost)
        abort();
    snprintf(what, sizeof what, "the kernel gave an agent up: %.200s", why);
    if (f->agent[i].greeted || !f->agent[i].over)
        check_lost(f, SIDE_KERNEL, i, what);
    f->kernel.node[i].lost = true;
    f->counts.lost++;
}

static void on_up(void *arg, unsigned node)
{
    struct fleet *f = arg;
    struct session *s = &node_table_get(&f->kernel.agents.nodes, node)->session;

    if (planted == PLANTED_FIRST_FORGOTTEN)
        (void)!session_acked(s, s->handed, NULL);
}

/* ---- time, and all of it ---- */

static bool is_slow(const struct session *s)
{
    return s->connected && s->kept && s->handed - s->acked > 40;
}

void kernel_end_tick(struct fleet *f)
{
    turns_tick(FLEET_KERNEL);
    for (unsigned i = 0; planted == PLANTED_SLOW_IS_LOSS && i < FLEET_AGENTS; i++)
        if (!f->kernel.node[i].lost && is_slow(kernel_end_session(f, i)))
            node_failures_lose(&f->kernel.agents, kernel_end_link(f, i), "it is slow");
}

void kernel_end_open(struct fleet *f)
{
    struct agents *a = &f->kernel.agents;
    struct err err = { "" };

    fleet = f;
    outside_open(f);
    f->kernel.router.ops = &ops;
    a->handler = (struct agents_handler){ on_message, on_up, on_lost, NULL, f };
    a->out = (struct to_agents){ .clock = loop_clock(NULL), .fan.nodes = &a->nodes };
    a->listen.remote = &f->kernel.router;
    beat_init(&a->beat, FLEET_TIMEOUT_NS, f->now);
    a->resume_ns = planted == PLANTED_STOP_IS_LOSS ? FLEET_TIMEOUT_NS : FLEET_RESUME_NS;
    a->untold_ns = a->resume_ns;
    if (agents_blobs_init(&a->blobs, &a->out, &err) < 0 ||
        node_table_add(&a->nodes, 1, 0, &err) < 0 || node_failures_watch(a, &err) < 0)
        abort();
    node_failures_start(a);
}

void kernel_end_release(struct fleet *f)
{
    struct agents *a = &f->kernel.agents;

    node_table_release(&a->nodes);
    agents_blobs_release(&a->blobs);
    to_agents_release(&a->out);
    credit_release(&a->credit);
    turns_end(FLEET_KERNEL);
    allowed_keys_release(&a->listen.allowed);
}
