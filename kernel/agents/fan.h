/* fan.h - from the list of those whom a message is for to one route for each connection that it
 * leaves by. Pure. */
#ifndef KERNEL_AGENTS_FAN_H
#define KERNEL_AGENTS_FAN_H

#include "kernel/agents/node_table.h"

struct fan {
    struct node_table *nodes;   /* borrowed */
    struct node_link **touched; /* nodes that it is for; owned, with room for all nodes */
    struct node_link **top;     /* connections; owned, with room for all nodes */
    size_t n_touched, n_top, room;
    size_t gone; /* how many of the list are on nodes that are lost, or nowhere */
};

void fan_release(struct fan *f);

/* Whom the message is for: workers, or the agents themselves. After either, `top` are the
 * connections, each with its `route`; for nodes that can't take it yet a copy waits. -1: memory is
 * out; it then leaves for nobody, though it may wait for some. */
MUST_USE int fan_workers(struct fan *f, const uint32_t *workers, size_t n, zmq_msg_t *body);
MUST_USE int fan_nodes(struct fan *f, const unsigned *nodes, size_t n, zmq_msg_t *body);

/* The nodes that workers are on, each once, without those that are gone. nodes has room for all
 * that there are. */
size_t fan_list(struct fan *f, const uint32_t *workers, size_t n, unsigned *nodes);

#endif
