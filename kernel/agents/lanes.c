/* lanes.c - see lanes.h. A chain of nodes has as many lanes as nodes. */
#include "kernel/agents/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/rows.h"

void lanes_release(struct lanes *t)
{
    free(t->lane);
    *t = (struct lanes)LANES_INIT;
}

struct lane *lanes_get(const struct lanes *t, unsigned giver, unsigned taker)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->lane[i].giver == giver && t->lane[i].taker == taker)
            return &t->lane[i];
    return NULL;
}

struct lane *lanes_add(struct lanes *t, unsigned giver, unsigned taker)
{
    struct lane *more = rows_insert(t->lane, &t->n, &t->room, sizeof *more, t->n, 8);

    if (!more)
        return NULL;
    t->lane = more;
    t->lane[t->n - 1] = (struct lane){ giver, taker, LANE_OPENING };
    return &t->lane[t->n - 1];
}

void lanes_lost(struct lanes *t, unsigned node)
{
    size_t left = 0;

    for (size_t i = 0; i < t->n; i++)
        if (t->lane[i].giver != node && t->lane[i].taker != node)
            t->lane[left++] = t->lane[i];
    t->n = left;
}

/* What stands before the first `end`, taken off. */
static struct slice cut(struct slice *s, char end)
{
    const char *at = s->n ? memchr(s->p, end, s->n) : NULL;
    const struct slice before = slice_of(s->p, at ? (size_t)(at - s->p) : s->n);

    *s = at ? slice_of(at + 1, s->n - before.n - 1) : slice_of(s->p + s->n, 0);
    return before;
}

int lane_endpoints(struct slice addresses, unsigned port, struct buf *out)
{
    while (addresses.n) {
        struct slice ip = cut(&addresses, ',');

        if (memchr(ip.p, '=', ip.n))
            (void)cut(&ip, '=');
        if (ip.n == 0)
            continue;
        if (buf_addf(out, memchr(ip.p, ':', ip.n) ? "%stcp://[%.*s]:%u" : "%stcp://%.*s:%u",
                     out->n ? "," : "", SLICE_ARG(ip), port) < 0)
            return -1;
    }
    return 0;
}
