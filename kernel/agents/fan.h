/* fan.h - finds the connections for a message: from the list of its receivers to one route for
 * each connection. Pure. */
#ifndef KERNEL_AGENTS_FAN_H
#define KERNEL_AGENTS_FAN_H

#include "kernel/agents/node_table.h"

struct fan {
    struct node_table *nodes;   /* borrowed */
    struct node_link **touched; /* its nodes; owned, with room for all nodes */
    struct node_link **top;     /* its connections; owned, with room for all nodes */
    size_t n_touched, n_top, room;
    size_t gone; /* receivers on nodes that are lost, or on none */
};

void fan_release(struct fan *f);

/* The receivers are workers, or the agents themselves. Both set `top` to the connections, each
 * with its route. For nodes that can't be reached yet a copy of the message waits. -1: memory is
 * out; then it must not be sent, but copies may wait. */
MUST_USE int fan_workers(struct fan *f, const uint32_t *workers, size_t n, zmq_msg_t *body);
MUST_USE int fan_nodes(struct fan *f, const unsigned *nodes, size_t n, zmq_msg_t *body);

/* The nodes of the workers, each once, without lost ones. `nodes` has room for all nodes. */
size_t fan_list(struct fan *f, const uint32_t *workers, size_t n, unsigned *nodes);

#endif
