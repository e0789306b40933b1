/* child_nodes.h - which nodes are below which child of this agent, in the tree of agents. Pure. */
#ifndef WORKER_AGENT_NET_CHILD_NODES_H
#define WORKER_AGENT_NET_CHILD_NODES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CHILD_NODES_NONE 0xffffffffu /* not a node's number */

struct child_nodes {
    uint32_t *child; /* for each node: the child above it, or the node itself if it is a child */
    size_t n;
};

#define CHILD_NODES_INIT { NULL, 0 }

void child_nodes_release(struct child_nodes *t);
/* -1: memory is out, or the node's number is above what nodes may have. */
MUST_USE int child_nodes_put(struct child_nodes *t, uint32_t node, uint32_t child);
uint32_t child_nodes_get(const struct child_nodes *t,
                         uint32_t node);                      /* CHILD_NODES_NONE: below none */
void child_nodes_drop(struct child_nodes *t, uint32_t child); /* also all nodes below it */

#endif
