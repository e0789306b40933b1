/* The machines on which the group's ranks may run: this one, or the nodes of its engine. */
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/parts.h"

struct machines machines_of(const struct notebook *nb)
{
    struct machine *first = nb->machine;

    return nb->group->on ? (struct machines){ first + 1, first + nb->machines }
                         : (struct machines){ first, first + 1 };
}

bool machines_are_here(const struct cell *c)
{
    const char *on = c->plan.on;

    return c->engine.here || (c->engine.moves ? on && strcmp(on, "local") == 0 : !c->nb->group->on);
}

struct machines machines_of_cell(const struct cell *c)
{
    struct machine *first = c->nb->machine;

    return machines_are_here(c) ? (struct machines){ first, first + 1 } : machines_of(c->nb);
}

struct machine *machine_of(const struct notebook *nb, unsigned node)
{
    for (size_t k = 0; k < nb->machines; k++)
        if (nb->machine[k].node == node)
            return &nb->machine[k];
    return NULL;
}

unsigned machines_lost(const struct notebook *nb)
{
    unsigned lost = 0;

    MACHINES_EACH (m, machines_of(nb))
        lost += m->lost;
    return lost;
}

void machines_forget(struct notebook *nb)
{
    nb->machines = 1;
}

int machines_add(struct notebook *nb, unsigned first, unsigned n)
{
    struct machine *more;

    if (nb->machines > 1)
        return 0;
    if (!(more = realloc(nb->machine, (1 + (size_t)n) * sizeof *more)))
        return -1;
    nb->machine = more;
    for (unsigned k = 0; k < n; k++)
        nb->machine[nb->machines++] = (struct machine){ .node = first + k };
    return 0;
}
