/* tree.c - see tree.h. Nodes are numbered from 0 without gaps, so a plain array is small, and asked
 * once for each section. */
#include "worker/agent/tree.h"

#include <stdlib.h>

#include "protocol/route.h"

void tree_release(struct tree *t)
{
    free(t->child);
    *t = (struct tree)TREE_INIT;
}

int tree_put(struct tree *t, uint32_t node, uint32_t child)
{
    const size_t n = (size_t)node + node / 2 + 16;
    uint32_t *p;

    if (node > ROUTE_NODES_MAX)
        return -1;
    if (node >= t->n) {
        if (!(p = realloc(t->child, n * sizeof *p)))
            return -1;
        for (size_t i = t->n; i < n; i++)
            p[i] = TREE_NONE;
        t->child = p;
        t->n = n;
    }
    t->child[node] = child;
    return 0;
}

uint32_t tree_get(const struct tree *t, uint32_t node)
{
    return node < t->n ? t->child[node] : TREE_NONE;
}

void tree_drop(struct tree *t, uint32_t child)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->child[i] == child)
            t->child[i] = TREE_NONE;
}
