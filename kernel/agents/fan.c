/* SPDX-License-Identifier: BSD-3-Clause */
/* A message may have thousands of receivers. So the list of receivers is read only once: flags in
 * nodes and connections say which of them this message has already. */
#include "kernel/agents/to_agents.h"

#include <stdlib.h>

#include "base/rows.h"

void fan_release(struct fan *f)
{
    free(f->touched);
    f->touched = f->top = NULL;
    f->n_touched = f->n_top = f->room = 0;
}

/* Makes room for all nodes. */
static int fan_begin(struct fan *f)
{
    const size_t n = f->nodes->n;
    struct node_link **touched;

    f->n_touched = f->n_top = f->gone = 0;
    if (n <= f->room)
        return 0;
    if (!(touched = realloc(f->touched, 4 * n * sizeof *touched)))
        return -1;
    f->touched = touched;
    f->room = 2 * n;
    f->top = touched + f->room;
    return 0;
}

/* NULL: the node is lost. NODE_HERE can be started again: messages for it wait. */
static struct node_link *fan_touch(struct fan *f, unsigned node)
{
    struct node_link *link = node_table_get(f->nodes, node);

    if (!link || (link->node.state == NODE_LOST && node != NODE_HERE)) {
        f->gone++;
        return NULL;
    }
    if (!link->fan.has_node) {
        link->fan.has_node = true;
        link->fan.n = 0;
        link->fan.handed = false;
        f->touched[f->n_touched++] = link;
    }
    return link;
}

static int fan_add_worker(struct fan_part *part, uint32_t worker)
{
    uint32_t *row = rows_add(&part->worker, &part->n, &part->room, sizeof *row);

    if (!row)
        return -1;
    *row = worker;
    return 0;
}

/* Keeps or drops the message for a node that can't be reached, and keeps it in the node's session.
 * *now: it is to be sent. */
static int fan_keep(struct fan *f, struct node_link *link, zmq_msg_t *body, bool *now)
{
    *now = node_link_is_ready(link);
    if (!f->numbered || link->node.number == NODE_HERE)
        return *now || link->cut ? 0 : node_link_wait(link, link->fan.worker, link->fan.n, body);
    if (node_link_keep(link, link->fan.worker, link->fan.n, body) < 0)
        return -1;
    /* else those before it leave first */
    *now = link->session.handed + 1 == link->session.numbered && node_link_next(link);
    link->fan.handed = *now;
    return 0;
}

/* Adds the node's section to the route of its connection, or lets the message wait. */
static int fan_section(struct fan *f, struct node_link *link, zmq_msg_t *body)
{
    struct node_link *top;
    bool now;

    if (fan_keep(f, link, body, &now) < 0)
        return -1;
    if (!now)
        return 0;
    top = node_link_top(link);
    if (!top->fan.has_route) {
        top->fan.has_route = true;
        buf_clear(&top->fan.route);
        f->top[f->n_top++] = top;
    }
    return route_add(&top->fan.route, link->node.number, link->fan.worker, link->fan.n);
}

/* The message is not sent now: in the node's session it waits. */
static void fan_take_back(struct node_link *link)
{
    if (link->fan.handed)
        session_take_back(&link->session);
}

/* Clears all flags, also after an error. */
static int fan_end(struct fan *f, zmq_msg_t *body, int rc)
{
    for (size_t i = 0; i < f->n_touched; i++) {
        f->touched[i]->fan.has_node = false;
        if (rc == 0)
            rc = fan_section(f, f->touched[i], body);
    }
    for (size_t i = 0; i < f->n_top; i++)
        f->top[i]->fan.has_route = false;
    for (size_t i = 0; rc < 0 && i < f->n_touched; i++)
        fan_take_back(f->touched[i]);
    if (rc < 0)
        f->n_top = 0;
    return rc;
}

size_t fan_list(struct fan *f, const uint32_t *workers, size_t n, unsigned *nodes)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        struct node_link *link = node_table_get(f->nodes, node_table_where(f->nodes, workers[i]));

        if (!link || link->fan.has_node ||
            (link->node.state == NODE_LOST && link->node.number != NODE_HERE))
            continue;
        link->fan.has_node = true;
        nodes[found++] = link->node.number;
    }
    for (size_t i = 0; i < found; i++)
        f->nodes->link[nodes[i]]->fan.has_node = false;
    return found;
}

int fan_workers(struct fan *f, const uint32_t *workers, size_t n, zmq_msg_t *body)
{
    int rc = fan_begin(f);

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct node_link *link = fan_touch(f, node_table_where(f->nodes, workers[i]));

        if (link)
            rc = fan_add_worker(&link->fan, workers[i]);
    }
    return fan_end(f, body, rc);
}

int fan_nodes(struct fan *f, const unsigned *nodes, size_t n, zmq_msg_t *body)
{
    int rc = fan_begin(f);

    for (size_t i = 0; i < n && rc == 0; i++)
        (void)fan_touch(f, nodes[i]);
    return fan_end(f, body, rc);
}
