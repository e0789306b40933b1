/* node_table.h - all nodes by number, and on which node each worker is. Nodes are freed only with
 * the table: a pointer to one stays valid. Pure. */
#ifndef KERNEL_AGENTS_NODE_TABLE_H
#define KERNEL_AGENTS_NODE_TABLE_H

#include "kernel/agents/node_link.h"

struct node_table {
    struct node_link **link; /* by the node's number */
    size_t n;
    uint16_t *home; /* the node of each worker, by the worker's number */
    size_t n_homes;
};

#define NODE_TABLE_INIT { NULL, 0, NULL, 0 }
#define NODE_NOWHERE    0xffffu /* the node of a worker that is gone */

void node_table_release(struct node_table *t);
/* Adds n nodes of an engine. -1: memory is out, or there are no numbers left; none was added. */
MUST_USE int node_table_add(struct node_table *t, unsigned n, unsigned engine, struct err *err);
/* NULL: there was never such a node. */
struct node_link *node_table_get(const struct node_table *t, unsigned number);

/* A worker is on NODE_HERE until it is placed or forgotten. */
MUST_USE int node_table_place(struct node_table *t, uint32_t worker, unsigned node,
                              struct err *err);
unsigned node_table_where(const struct node_table *t, uint32_t worker);
void node_table_forget(struct node_table *t, uint32_t worker);

#endif
