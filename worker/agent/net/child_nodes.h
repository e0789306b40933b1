/* child_nodes.h - under which of an agent's children a node is. Pure. */
#ifndef WORKER_AGENT_NET_CHILD_NODES_H
#define WORKER_AGENT_NET_CHILD_NODES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CHILD_NODES_NONE 0xffffffffu /* no number of a node */

struct child_nodes {
    uint32_t *child; /* by node: the child under which it is (itself, if it is one) */
    size_t n;
};

#define CHILD_NODES_INIT { NULL, 0 }

void child_nodes_release(struct child_nodes *t);
/* -1: memory is out, or the node's number is above what nodes may have. */
MUST_USE int child_nodes_put(struct child_nodes *t, uint32_t node, uint32_t child);
uint32_t child_nodes_get(const struct child_nodes *t,
                         uint32_t node);                      /* CHILD_NODES_NONE: under none */
void child_nodes_drop(struct child_nodes *t, uint32_t child); /* and all that is under it */

#endif
