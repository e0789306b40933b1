/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/agents/node_link.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/span.h"

void waiting_message_free(struct waiting_message *message)
{
    if (!message)
        return;
    buf_release(&message->route);
    zmq_msg_close(&message->body);
    free(message);
}

static void item_free(void *item)
{
    waiting_message_free(item);
}

struct waiting_message *node_link_take(struct node_link *link)
{
    struct waiting_message *first = link->first;

    if (!first)
        return NULL;
    if (!(link->first = first->next))
        link->last = &link->first;
    return first;
}

/* NULL: memory is out. */
static struct waiting_message *message_for(const struct node_link *link, const uint32_t *workers,
                                           size_t n, zmq_msg_t *body)
{
    struct waiting_message *message = calloc(1, sizeof *message);

    if (!message)
        return NULL;
    (void)zmq_msg_init(&message->body);
    if (route_add(&message->route, link->node.number, workers, n) == 0 &&
        zmq_msg_copy(&message->body, body) == 0)
        return message;
    waiting_message_free(message);
    return NULL;
}

int node_link_wait(struct node_link *link, const uint32_t *workers, size_t n, zmq_msg_t *body)
{
    struct waiting_message *message = message_for(link, workers, n, body);

    if (!message)
        return -1;
    *link->last = message;
    link->last = &message->next;
    return 0;
}

int node_link_keep(struct node_link *link, const uint32_t *workers, size_t n, zmq_msg_t *body)
{
    struct waiting_message *message = message_for(link, workers, n, body);

    return message ? session_keep(&link->session, message, zmq_msg_size(body), NULL) : -1;
}

struct waiting_message *node_link_next(struct node_link *link)
{
    return node_link_is_ready(link) ? session_next(&link->session) : NULL;
}

static void drop_waiting(struct node_link *link)
{
    struct waiting_message *message;

    while ((message = node_link_take(link)))
        waiting_message_free(message);
}

void node_link_cut(struct node_link *link)
{
    session_cut(&link->session);
    drop_waiting(link);
    link->cut = true;
    link->fd = -1;
}

void node_link_lost(struct node_link *link)
{
    drop_waiting(link);
    session_release(&link->session);
    memset(link->next, 0, KEY_SIZE);
    link->cut = false;
    link->node.state = NODE_LOST;
    link->node.leaving = link->node.shown_away = false;
    link->router = NULL;
    link->identity_size = 0;
    link->fd = -1;
    link->parent = NULL;
    link->move = TREE_MOVE_NONE;
    link->lost_at_ns = 0;
    buf_release(&link->fan.route);
    free(link->fan.worker);
    link->fan = (struct fan_part){ .worker = NULL };
    free(link->notice);
    link->notice = NULL;
}

void node_link_free(struct node_link *link)
{
    if (!link)
        return;
    node_link_lost(link);
    free((char *)link->node.name);
    free((char *)link->node.address);
    free((char *)link->node.addresses);
    free(link);
}

struct node_link *node_link_create(unsigned number, unsigned engine, unsigned index)
{
    struct node_link *link = calloc(1, sizeof *link);

    if (!link)
        return NULL;
    link->node = (struct node){ .number = number, .engine = engine, .index = index };
    link->fd = -1;
    link->meter = (struct meter)METER_INIT;
    link->last = &link->first;
    link->voided_parent = ROUTE_KERNEL;
    session_init(&link->session, item_free);
    if ((link->node.name = strdup("")) && (link->node.address = strdup("")))
        return link;
    node_link_free(link);
    return NULL;
}

/* Replaces the text by a copy of s. */
static int set_text(const char **text, struct slice s)
{
    char *copy = slice_copy(s);

    if (!copy)
        return -1;
    free((char *)*text);
    *text = copy;
    return 0;
}

int node_link_set_name(struct node_link *link, struct slice name)
{
    return set_text(&link->node.name, name);
}

int node_link_set_addresses(struct node_link *link, struct slice list)
{
    if (set_text(&link->node.addresses, list) < 0)
        return -1;
    return set_text(&link->node.address, span_cut_ip(&list));
}

/* A parent is marked as lost shortly before its children are: it has no identity then. */
bool node_link_is_ready(const struct node_link *link)
{
    if (!link->identity_size || link->cut || link->move == TREE_MOVE_DIALING)
        return false;
    while (link->move == TREE_MOVE_DONE && link->parent)
        link = link->parent;
    return link->identity_size && !link->cut;
}

struct node_link *node_link_top(struct node_link *link)
{
    while (link->move == TREE_MOVE_DONE && link->parent)
        link = link->parent;
    return link;
}

bool node_link_is_under(const struct node_link *link, const struct node_link *top)
{
    while (link != top && link->move == TREE_MOVE_DONE && link->parent)
        link = link->parent;
    return link == top;
}

uint64_t node_link_known_ns(const struct node_link *link, uint64_t now)
{
    for (; link->move == TREE_MOVE_DONE && link->parent; link = link->parent)
        if (link->parent->times.heard < now)
            now = link->parent->times.heard;
    return now;
}
