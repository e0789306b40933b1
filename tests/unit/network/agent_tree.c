/* SPDX-License-Identifier: BSD-3-Clause */
/* agent_tree.c - an agent's parent, which it reaches the kernel through, and its children, as
 * worker/agent/net/peers.c and peer_accept.c have them. */
#include <stdlib.h>
#include <string.h>

#include "protocol/span_fields.h"
#include "tests/unit/network/fleet.h"

#define PORT 1u /* of each agent */

/* ---- the tree; the kernel's code asks for it (ld --wrap) ---- */

static const unsigned parents[FLEET_AGENTS] = { TREE_NONE, 0, 0, 1 };

unsigned fleet_parent(unsigned i)
{
    return parents[i];
}

unsigned __wrap_tree_parent(unsigned index);
unsigned __wrap_tree_child(unsigned index, unsigned k);

unsigned __wrap_tree_parent(unsigned index)
{
    return parents[index];
}

unsigned __wrap_tree_child(unsigned index, unsigned k)
{
    for (unsigned i = 0; i < FLEET_AGENTS; i++)
        if (parents[i] == index && k-- == 0)
            return i;
    return TREE_NONE;
}

/* ---- children ---- */

static struct child_end *child_of(struct agent_end *a, enum child_state state, uint32_t node)
{
    for (unsigned k = 0; k < FLEET_AGENTS; k++)
        if (a->child[k].state == state && (state == CHILD_NONE || a->child[k].node == node))
            return &a->child[k];
    return NULL;
}

static void drop(struct agent_end *a, struct child_end *c)
{
    if (c->state == CHILD_HERE)
        child_nodes_drop(&a->under, c->node);
    *c = (struct child_end){ .state = CHILD_NONE };
}

/* false: the connection has ended. */
static bool send_down(struct fleet *f, const struct child_end *c, struct frame *frame)
{
    struct wire *w = network_wire(&f->net, c->wire);

    if (!w || w->closed[SIDE_KERNEL]) {
        free(frame);
        return false;
    }
    network_send(&f->net, w, SIDE_KERNEL, frame, f->now);
    return true;
}

static struct frame *frame_of(const struct span *m, uint32_t node)
{
    struct buf message = BUF_INIT;
    struct frame *frame;
    struct err err = { "" };

    if (span_encode(m, &message, &err) < 0)
        abort();
    frame = frame_create(FRAME_SPAN, node, NULL, buf_slice(&message));
    buf_release(&message);
    return frame;
}

bool agent_tree_down(struct fleet *f, unsigned i, const struct frame *frame)
{
    struct agent_end *a = &f->agent[i];
    const uint32_t under = child_nodes_get(&a->under, frame->node);
    struct child_end *c;

    if (frame->node == a->node || frame->node == ROUTE_KERNEL)
        return false;
    c = under == CHILD_NODES_NONE ? NULL : child_of(a, CHILD_HERE, under);
    if (c &&
        !send_down(f, c,
                   frame_create(FRAME_SPAN, frame->node, NULL, slice_of(frame->bytes, frame->n))))
        drop(a, c);
    return true;
}

/* That `node` will be below another one, or that it will dial, or that it will not come. */
void agent_tree_open(struct fleet *f, unsigned i, const struct span *m)
{
    const struct slice key = m->v[F_OPEN_KEY].s;
    const uint32_t node = (uint32_t)m->v[F_OPEN_NODE].u64;
    struct span said = { .kind = SPAN_OPENED, .v[F_OPENED_NODE].u64 = node };
    struct agent_end *a = &f->agent[i];
    struct child_end *c;

    if (!key.n) {
        const uint32_t under = child_nodes_get(&a->under, node);

        if (under != CHILD_NODES_NONE && under != node)
            (void)!child_nodes_put(&a->under, node, CHILD_NODES_NONE);
        else if ((c = child_of(a, CHILD_HERE, node)) || (c = child_of(a, CHILD_EXPECTED, node)))
            drop(a, c);
        return;
    }
    for (unsigned k = 0; k < FLEET_AGENTS; k++)
        if (a->child[k].state != CHILD_NONE && a->child[k].node != node &&
            memcmp(a->child[k].key, key.p, KEY_SIZE) == 0) {
            if (child_nodes_put(&a->under, node, a->child[k].node) < 0)
                abort();
            return;
        }
    if ((c = child_of(a, CHILD_NONE, 0))) {
        *c = (struct child_end){ .state = CHILD_EXPECTED, .node = node };
        memcpy(c->key, key.p, KEY_SIZE);
        said.v[F_OPENED_PORT].u64 = PORT;
    } else {
        said.v[F_OPENED_ERROR].s = slice_text("there are too many");
    }
    agent_end_say(f, i, &said);
}

/* The first message of a child. */
static void take_dial(struct fleet *f, unsigned i, struct wire *w, const struct frame *frame)
{
    const struct span m = { .kind = SPAN_DIALED, .v[F_DIALED_NODE].u64 = f->agent[i].node };
    struct child_end *c = child_of(&f->agent[i], CHILD_EXPECTED, frame->node);

    if (!c)
        return;
    c->state = CHILD_HERE;
    c->wire = w->number;
    if (child_nodes_put(&f->agent[i].under, c->node, c->node) < 0)
        abort();
    if (!send_down(f, c, frame_of(&m, ROUTE_KERNEL)))
        drop(&f->agent[i], c);
}

static void take_from_child(struct fleet *f, unsigned i, struct wire *w, const struct frame *frame)
{
    struct agent_end *a = &f->agent[i];
    unsigned k = 0;

    while (k < FLEET_AGENTS && (a->child[k].state != CHILD_HERE || a->child[k].wire != w->number))
        k++;
    if (k == FLEET_AGENTS)
        take_dial(f, i, w, frame);
    else if (child_nodes_get(&a->under, frame->node) == a->child[k].node)
        agent_end_pass(f, i, frame->node, slice_of(frame->bytes, frame->n));
}

static void knock(struct fleet *f, unsigned i, struct wire *w)
{
    bool expected = false;

    for (unsigned k = 0; k < FLEET_AGENTS; k++)
        expected = expected || (f->agent[i].child[k].state == CHILD_EXPECTED &&
                                memcmp(f->agent[i].child[k].key, w->key, KEY_SIZE) == 0);
    network_send(&f->net, w, SIDE_KERNEL,
                 frame_create(expected ? FRAME_ADMITTED : FRAME_REFUSED, 0, NULL, slice_text("")),
                 f->now);
}

/* The socket of an agent does not say that a connection has ended. */
void agent_tree_child(struct fleet *f, unsigned i, struct wire *w, const struct frame *frame)
{
    if (f->agent[i].state == AGENT_OVER || (frame->kind == FRAME_KNOCK && w->closed[SIDE_KERNEL]))
        return;
    if (frame->kind == FRAME_KNOCK)
        knock(f, i, w);
    else if (frame->kind != FRAME_END)
        take_from_child(f, i, w, frame);
    else if (!w->closed[SIDE_KERNEL])
        network_close(&f->net, w, SIDE_KERNEL, f->now);
}

/* ---- a parent ---- */

static void say_dialed(struct fleet *f, unsigned i, uint32_t node, const char *error)
{
    struct span m = { .kind = SPAN_DIALED, .v[F_DIALED_NODE].u64 = node };

    m.v[F_DIALED_ERROR].s = slice_text(error);
    agent_end_say(f, i, &m);
}

static void move_fails(struct fleet *f, unsigned i, const char *why)
{
    struct agent_end *a = &f->agent[i];

    network_close(&f->net, a->moving, SIDE_AGENT, f->now);
    a->moving = NULL;
    say_dialed(f, i, a->moving_node, why);
}

void agent_tree_dial(struct fleet *f, unsigned i, const struct span *m)
{
    const uint32_t node = (uint32_t)m->v[F_DIAL_NODE].u64;
    const unsigned parent = fleet_parent(i);
    struct agent_end *a = &f->agent[i];

    if (a->stays || a->moving || a->parent) {
        say_dialed(f, i, node, "it keeps its own connection");
    } else if (parent == TREE_NONE || f->agent[parent].state == AGENT_OVER ||
               f->agent[parent].node != node) {
        say_dialed(f, i, node, "nobody is there");
    } else {
        a->moving_node = node;
        a->moves_until_ns = f->now + PEER_DIAL_LIMIT_NS;
        a->moving = network_dial(&f->net, i, parent, &f->path[FLEET_AGENTS + i], a->own, f->now);
    }
}

void agent_tree_parent(struct fleet *f, unsigned i, const struct frame *frame)
{
    const struct span m = { .kind = SPAN_DIAL, .v[F_DIAL_NODE].u64 = f->agent[i].node };
    struct agent_end *a = &f->agent[i];
    struct wire *w = a->moving;

    if (frame->kind == FRAME_ADMITTED) {
        network_send(&f->net, w, SIDE_AGENT, frame_of(&m, a->node), f->now);
    } else if (frame->kind != FRAME_SPAN) {
        move_fails(f, i, "the parent does not let it in, or is gone");
    } else {
        say_dialed(f, i, a->moving_node, "");
        a->moving = NULL;
        a->parent = w;
    }
}

static void send_what_waits(struct fleet *f, struct agent_end *a, bool wanted)
{
    struct frame *frame;

    while ((frame = a->waits)) {
        a->waits = frame->next;
        frame->next = NULL;
        if (wanted)
            network_send(&f->net, a->wire, SIDE_AGENT, frame, f->now);
        else
            free(frame);
    }
    a->last = &a->waits;
}

/* The kernel has read all that was sent before. */
void agent_tree_moved(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    network_close(&f->net, a->wire, SIDE_AGENT, f->now);
    a->wire = a->parent;
    a->parent = NULL;
    send_what_waits(f, a, true);
}

void agent_tree_tick(struct fleet *f, unsigned i)
{
    if (f->agent[i].moving && f->now >= f->agent[i].moves_until_ns)
        move_fails(f, i, "it takes too long");
}

void agent_tree_start(struct agent_end *a)
{
    a->last = &a->waits;
}

/* The connection has ended. Children have to come to the kernel by themselves, too. */
void agent_tree_cut(struct fleet *f, unsigned i)
{
    const struct span m = { .kind = SPAN_RESUME, .v[F_RESUME_VERSION].u64 = SPAN_VERSION };
    struct agent_end *a = &f->agent[i];

    for (unsigned k = 0; k < FLEET_AGENTS; k++)
        if (a->child[k].state == CHILD_HERE) {
            (void)send_down(f, &a->child[k], frame_of(&m, ROUTE_KERNEL));
            drop(a, &a->child[k]);
        }
    a->stays = true;
    if (a->moving)
        move_fails(f, i, "the connection to the kernel has ended");
    if (a->parent)
        network_close(&f->net, a->parent, SIDE_AGENT, f->now);
    a->parent = NULL;
    send_what_waits(f, a, false);
}

void agent_tree_end(struct fleet *f, unsigned i)
{
    struct agent_end *a = &f->agent[i];

    for (struct wire *w = f->net.first; w; w = w->next)
        if (w->listener == i && !w->closed[SIDE_KERNEL])
            network_close(&f->net, w, SIDE_KERNEL, f->now);
    if (a->moving)
        network_close(&f->net, a->moving, SIDE_AGENT, f->now);
    if (a->parent)
        network_close(&f->net, a->parent, SIDE_AGENT, f->now);
    a->moving = a->parent = NULL;
    send_what_waits(f, a, false);
    child_nodes_release(&a->under);
}
