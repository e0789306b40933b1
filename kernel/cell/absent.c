/* Machines that did not come up: a run without them is not what was asked for, and the cell fails. Others may be about
 * to fail too, so that for a moment it waits for them, and then names all. */
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/room.h"

#define MOMENT_NS (1500 * NS_PER_MS)
#define NAMED_MAX 8u

/* Is one of them still on its way? */
static bool is_open(const struct notebook *nb)
{
    unsigned first = 0, n = 0;

    nb->doors.engine_nodes(nb->doors.arg, nb->group->engine, &first, &n);
    for (unsigned k = 0; k < n; k++) {
        const struct node_info *info = nb->doors.node(nb->doors.arg, first + k);

        if (!info || info->state == NODE_ASKED)
            return true;
    }
    return n == 0;
}

void absent_fail(struct cell *c)
{
    const struct absent *a = &c->absent;
    struct buf names = BUF_INIT;
    const bool good = buf_add_slice(&names, buf_slice(&a->names)) == 0 &&
                      (a->n <= NAMED_MAX || buf_addf(&names, " and %u more", a->n - NAMED_MAX) == 0);

    if (!good)
        cell_fail(c, "RankNotStarted", "%u machines did not come up", a->n);
    else if (a->unlike)
        cell_fail(c, "RankNotStarted", "%s did not come up:%s", names.p, a->lines.p);
    else
        cell_fail(c, "RankNotStarted", "%s did not come up: %s", names.p, a->why);
    buf_release(&names);
}

void absent_look(struct cell *c)
{
    if (c->absent.n && !is_open(c->nb))
        absent_fail(c);
}

void absent_add(struct cell *c, const char *name, const char *why)
{
    struct absent *a = &c->absent;
    int rc = 0;

    if (a->n++ < NAMED_MAX)
        rc = buf_addf(&a->names, "%s%s", a->n > 1 ? ", " : "", name) < 0 ||
             buf_addf(&a->lines, "\n  %s: %s", name, why) < 0;
    if (a->why)
        a->unlike = a->unlike || strcmp(a->why, why) != 0;
    else if (!(a->why = strdup(why)))
        rc = -1;
    if (a->n == 1)
        a->due_ns = notebook_now(c->nb) + MOMENT_NS;
    if (rc)
        cell_fail(c, "RankNotStarted", "%s did not come up: %s", name, why);
    else
        absent_look(c);
}

void absent_tick(struct cell *c, uint64_t now)
{
    if (now < c->absent.due_ns)
        return;
    c->absent.due_ns = NEVER;
    if (c->state == CELL_ENGINE)
        absent_fail(c);
}

void absent_release(struct cell *c)
{
    buf_release(&c->absent.names);
    buf_release(&c->absent.lines);
    free(c->absent.why);
    c->absent = (struct absent){ .due_ns = NEVER };
}
