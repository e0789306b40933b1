/* tree.h - under which of an agent's children a node is. Pure. */
#ifndef WORKER_AGENT_TREE_H
#define WORKER_AGENT_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TREE_NONE 0xffffffffu /* no number of a node */

struct tree {
    uint32_t *child; /* by node: the child under which it is (itself, if it is one) */
    size_t n;
};

#define TREE_INIT { NULL, 0 }

void tree_release(struct tree *t);
/* -1: memory is out, or the node's number is above what nodes may have. */
MUST_USE int tree_put(struct tree *t, uint32_t node, uint32_t child);
uint32_t tree_get(const struct tree *t, uint32_t node); /* TREE_NONE: under none */
void tree_drop(struct tree *t, uint32_t child);         /* and all that is under it */

#endif
