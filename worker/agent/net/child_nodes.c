/* SPDX-License-Identifier: BSD-3-Clause */
/* child_nodes.c - see peer.h. Nodes are numbered from 0 without gaps, so an array is small
 * enough. */
#include "worker/agent/net/peer.h"

#include <stdlib.h>

#include "protocol/route.h"

void child_nodes_release(struct child_nodes *t)
{
    free(t->child);
    *t = (struct child_nodes)CHILD_NODES_INIT;
}

int child_nodes_put(struct child_nodes *t, uint32_t node, uint32_t child)
{
    const size_t n = (size_t)node + node / 2 + 16;
    uint32_t *p;

    if (node > ROUTE_NODES_MAX)
        return -1;
    if (node >= t->n) {
        if (!(p = realloc(t->child, n * sizeof *p)))
            return -1;
        for (size_t i = t->n; i < n; i++)
            p[i] = CHILD_NODES_NONE;
        t->child = p;
        t->n = n;
    }
    t->child[node] = child;
    return 0;
}

uint32_t child_nodes_get(const struct child_nodes *t, uint32_t node)
{
    return node < t->n ? t->child[node] : CHILD_NODES_NONE;
}

void child_nodes_drop(struct child_nodes *t, uint32_t child)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->child[i] == child)
            t->child[i] = CHILD_NODES_NONE;
}
