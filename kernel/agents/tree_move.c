/* SPDX-License-Identifier: BSD-3-Clause */
/* tree_move.c - moves a node from its own connection to its parent in the tree of agents (declared
 * in to_agents.h). */
#include "kernel/agents/to_agents.h"

#include "base/log.h"
#include "kernel/blobs/direct_links.h"
#include "protocol/span_fields.h"

/* The node of the same engine with that index there. NULL: there is none. */
static struct node_link *sibling(const struct to_agents *out, const struct node_link *link,
                                 unsigned index)
{
    if (index >= link->siblings)
        return NULL;
    return node_table_get(out->fan.nodes, link->node.number - link->node.index + index);
}

static struct node_link *parent_of(const struct to_agents *out, const struct node_link *link)
{
    return sibling(out, link, tree_parent(link->node.index));
}

/* Its k-th child; NULL: it has no more than k. */
static struct node_link *child_of(const struct to_agents *out, const struct node_link *link,
                                  unsigned k)
{
    return sibling(out, link, tree_child(link->node.index, k));
}

/* Is it up, and not about to move? */
static bool is_settled(const struct node_link *link)
{
    return link->node.state == NODE_UP && !link->cut &&
           (link->move == TREE_MOVE_NONE || link->move == TREE_MOVE_DONE);
}

static void tell_open(struct to_agents *out, const struct node_link *to,
                      const struct node_link *child, struct slice key)
{
    struct span m = { .kind = SPAN_OPEN, .v[F_OPEN_NODE].u64 = child->node.number };

    m.v[F_OPEN_KEY].s = key;
    to_agents_tell(out, to, &m);
}

static struct slice key_of(const struct node_link *link)
{
    return slice_of(link->key, KEY_SIZE);
}

static void begin(struct to_agents *out, struct node_link *child, struct node_link *parent)
{
    child->move = TREE_MOVE_OPENING;
    tell_open(out, parent, child, key_of(child));
}

/* Tells the parent and the nodes above it, which expect the child, that it will not come. */
static void take_back(struct to_agents *out, const struct node_link *child,
                      const struct node_link *parent)
{
    for (; parent; parent = parent->move == TREE_MOVE_DONE ? parent->parent : NULL)
        if (parent->node.state == NODE_UP)
            tell_open(out, parent, child, slice_text(""));
}

static void settled(struct to_agents *out, struct node_link *link);

/* It keeps its own connection. */
static void stay(struct to_agents *out, struct node_link *link, const char *why, struct slice text)
{
    log_info("agents", "%s keeps its own connection: %s%.*s", link->node.name, why,
             SLICE_ARG(text));
    link->move = TREE_MOVE_NONE;
    link->parent = NULL;
    to_agents_flush(link);
    settled(out, link);
}

/* The node does not move any more: children that wait for it begin to move. */
static void settled(struct to_agents *out, struct node_link *link)
{
    struct node_link *child;

    for (unsigned k = 0; (child = child_of(out, link, k)); k++)
        if (child->move == TREE_MOVE_WAITS)
            begin(out, child, link);
}

void tree_move_node_up(struct to_agents *out, struct node_link *link)
{
    struct node_link *parent = parent_of(out, link);

    if (parent && is_settled(parent))
        begin(out, link, parent);
    else if (parent && parent->node.state != NODE_LOST)
        link->move = TREE_MOVE_WAITS;
    else
        settled(out, link);
}

/* Tells the nodes above the parent through whom the child will be reached. */
static void tell_above(struct to_agents *out, const struct node_link *child,
                       const struct node_link *parent)
{
    for (; parent->move == TREE_MOVE_DONE && parent->parent; parent = parent->parent)
        tell_open(out, parent->parent, child, key_of(parent));
}

static void dial(struct to_agents *out, struct node_link *child, struct node_link *parent,
                 unsigned port)
{
    struct span m = { .kind = SPAN_DIAL, .v[F_DIAL_NODE].u64 = parent->node.number };
    struct buf endpoints = BUF_INIT;

    if (direct_link_endpoints(slice_text(parent->node.addresses ? parent->node.addresses : ""),
                              port, &endpoints) < 0 ||
        !endpoints.n) {
        take_back(out, child, parent);
        stay(out, child, "no address is known of ", slice_text(parent->node.name));
        buf_release(&endpoints);
        return;
    }
    m.v[F_DIAL_ENDPOINTS].s = buf_slice(&endpoints);
    m.v[F_DIAL_KEY].s = slice_of(parent->key, KEY_SIZE);
    tell_above(out, child, parent);
    to_agents_tell(out, child, &m);
    child->parent = parent;
    child->move = TREE_MOVE_DIALING;
    peer_times_start(&child->times, clock_now(out->clock));
    buf_release(&endpoints);
}

static enum tree_move_outcome on_opened(struct to_agents *out, struct node_link *from,
                                        const struct span *m)
{
    const uint64_t number = m->v[F_OPENED_NODE].u64, port = m->v[F_OPENED_PORT].u64;
    struct node_link *child = number <= ROUTE_NODES_MAX
                                  ? node_table_get(out->fan.nodes, (unsigned)number)
                                  : NULL;

    if (!child || child->move != TREE_MOVE_OPENING || parent_of(out, child) != from)
        return TREE_MOVE_NOT_MINE;
    if (m->v[F_OPENED_ERROR].s.n || port == 0 || port > 65535)
        stay(out, child, "its parent has no port for it: ", m->v[F_OPENED_ERROR].s);
    else
        dial(out, child, from, (unsigned)port);
    return TREE_MOVE_TAKEN;
}

static enum tree_move_outcome on_dialed(struct to_agents *out, struct node_link *child,
                                        const struct span *m)
{
    if (child->voided_parent != ROUTE_KERNEL && m->v[F_DIALED_NODE].u64 == child->voided_parent &&
        child->move != TREE_MOVE_DIALING) {
        child->voided_parent = ROUTE_KERNEL;
        return TREE_MOVE_TAKEN;
    }
    if (child->move != TREE_MOVE_DIALING || m->v[F_DIALED_NODE].u64 != child->parent->node.number)
        return TREE_MOVE_NOT_MINE;
    if (m->v[F_DIALED_ERROR].s.n) {
        take_back(out, child, child->parent);
        stay(out, child, "", m->v[F_DIALED_ERROR].s);
        return TREE_MOVE_TAKEN;
    }
    if (child->parent->node.state != NODE_UP || child->parent->cut)
        return TREE_MOVE_CUT_OFF;
    child->move = TREE_MOVE_DONE;
    child->fd = -1;
    log_info("agents", "%s is reached by way of %s", child->node.name, child->parent->node.name);
    to_agents_beat(out, child); /* at this it closes its connection to the kernel */
    to_agents_flush(child);
    settled(out, child);
    return TREE_MOVE_TAKEN;
}

enum tree_move_outcome tree_move_message(struct to_agents *out, struct node_link *from,
                                         const struct span *m)
{
    if (m->kind == SPAN_OPENED)
        return on_opened(out, from, m);
    return m->kind == SPAN_DIALED ? on_dialed(out, from, m) : TREE_MOVE_NOT_MINE;
}

void tree_move_cancel(struct to_agents *out, const struct node_link *link)
{
    if (link->move == TREE_MOVE_OPENING)
        take_back(out, link, parent_of(out, link));
    else if (link->move == TREE_MOVE_DIALING)
        take_back(out, link, link->parent);
}

void tree_move_node_cut(struct to_agents *out, struct node_link *link)
{
    tree_move_cancel(out, link);
    if (link->move == TREE_MOVE_DIALING)
        link->voided_parent = link->parent->node.number;
    if (link->move != TREE_MOVE_DONE) {
        link->move = TREE_MOVE_NONE;
        link->parent = NULL;
    }
    tree_move_parent_lost(out, link);
}

/* A child that has dialed already answers with DIALED. */
void tree_move_parent_lost(struct to_agents *out, const struct node_link *link)
{
    struct node_link *child;

    for (unsigned k = 0; (child = child_of(out, link, k)); k++)
        if (child->move == TREE_MOVE_WAITS || child->move == TREE_MOVE_OPENING)
            stay(out, child, "its parent is gone", slice_text(""));
}
