/* SPDX-License-Identifier: BSD-3-Clause */
/* node_table.c - has all nodes by number, and the node of each worker (declared in node_link.h). */
#include "kernel/agents/node_link.h"

#include <stdlib.h>
#include <string.h>

void node_table_release(struct node_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        node_link_free(t->link[i]);
    free(t->link);
    free(t->home);
    *t = (struct node_table)NODE_TABLE_INIT;
}

int node_table_add(struct node_table *t, unsigned n, unsigned engine, struct err *err)
{
    const size_t old = t->n;
    struct node_link **link;

    if (n > ROUTE_NODES_MAX || old + n > ROUTE_NODES_MAX)
        return err_set(err,
                       "%u nodes are too many: this kernel has had %zu, and numbers for %u; ask "
                       "for fewer, or start the kernel anew",
                       n, old, ROUTE_NODES_MAX);
    if (!(link = realloc(t->link, (old + n) * sizeof *link)))
        return err_set(err, "out of memory for %u nodes", n);
    t->link = link;
    for (unsigned i = 0; i < n; i++, t->n++) {
        if (!(link[t->n] = node_link_create((unsigned)t->n, engine, i)))
            goto undo;
        link[t->n]->siblings = n;
    }
    return 0;
undo:
    while (t->n > old)
        node_link_free(link[--t->n]);
    return err_set(err, "out of memory for %u nodes", n);
}

struct node_link *node_table_get(const struct node_table *t, unsigned number)
{
    return number < t->n ? t->link[number] : NULL;
}

static int homes_grow(struct node_table *t, uint32_t worker)
{
    const size_t n = (size_t)worker + worker / 2 + 64;
    uint16_t *home;

    if (worker < t->n_homes)
        return 0;
    if (!(home = realloc(t->home, n * sizeof *home)))
        return -1;
    memset(home + t->n_homes, 0, (n - t->n_homes) * sizeof *home);
    t->home = home;
    t->n_homes = n;
    return 0;
}

int node_table_place(struct node_table *t, uint32_t worker, unsigned node, struct err *err)
{
    if (node >= t->n)
        return err_set(err, "there is no node %u", node);
    if (node == NODE_HERE && worker >= t->n_homes)
        return 0;
    if (homes_grow(t, worker) < 0)
        return err_set(err, "out of memory for worker %u", worker);
    t->home[worker] = (uint16_t)node;
    return 0;
}

unsigned node_table_where(const struct node_table *t, uint32_t worker)
{
    return worker < t->n_homes ? t->home[worker] : NODE_HERE;
}

void node_table_forget(struct node_table *t, uint32_t worker)
{
    if (worker < t->n_homes)
        t->home[worker] = NODE_NOWHERE;
}
