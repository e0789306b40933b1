/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes on which the group's ranks may run: this machine, or the nodes of its engine. */
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/cell_nodes.h"

struct group_nodes group_nodes_of(const struct notebook *nb)
{
    struct group_node *first = nb->node;

    return nb->group->on ? (struct group_nodes){ first + 1, first + nb->nodes }
                         : (struct group_nodes){ first, first + 1 };
}

bool group_nodes_are_here(const struct cell *c)
{
    const char *on = c->plan.on;

    return c->engine.here || (c->engine.moves ? on && strcmp(on, "local") == 0 : !c->nb->group->on);
}

struct group_nodes group_nodes_of_cell(const struct cell *c)
{
    struct group_node *first = c->nb->node;

    return group_nodes_are_here(c) ? (struct group_nodes){ first, first + 1 }
                                   : group_nodes_of(c->nb);
}

struct group_node *group_node_of(const struct notebook *nb, unsigned node)
{
    for (size_t k = 0; k < nb->nodes; k++)
        if (nb->node[k].number == node)
            return &nb->node[k];
    return NULL;
}

unsigned group_nodes_lost(const struct notebook *nb)
{
    unsigned lost = 0;

    GROUP_NODES_EACH (node, group_nodes_of(nb))
        lost += node->lost;
    return lost;
}

int group_nodes_add(struct notebook *nb, unsigned first, unsigned n)
{
    struct group_node *more;

    if (nb->nodes > 1)
        return 0;
    if (!(more = realloc(nb->node, (1 + (size_t)n) * sizeof *more)))
        return -1;
    nb->node = more;
    for (unsigned k = 0; k < n; k++)
        nb->node[nb->nodes++] = (struct group_node){ .number = first + k };
    return 0;
}
