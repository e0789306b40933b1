/* loads.c - see loads.h. Two sorted arrays, searched by halves: numbers of blobs grow, so that new
 * ones go to the end. */
#include "kernel/agents/loads.h"

#include <stdlib.h>

#include "base/rows.h"

void loads_release(struct loads *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->load[i].place);
    free(t->load);
    *t = (struct loads)LOADS_INIT;
}

static uint64_t blob_of(const void *loads, size_t i)
{
    return ((const struct load *)loads)[i].blob;
}

static uint64_t node_of(const void *places, size_t i)
{
    return ((const struct place *)places)[i].node;
}

struct load *loads_get(const struct loads *t, uint64_t blob)
{
    const size_t i = rows_place(t->load, t->n, blob_of, blob);

    return i < t->n && t->load[i].blob == blob ? &t->load[i] : NULL;
}

struct place *load_at(const struct load *l, unsigned node)
{
    const size_t i = rows_place(l->place, l->n, node_of, node);

    return i < l->n && l->place[i].node == node ? &l->place[i] : NULL;
}

struct load *loads_add(struct loads *t, uint64_t blob, uint64_t size)
{
    const size_t i = rows_place(t->load, t->n, blob_of, blob);
    struct load *more;

    if (i < t->n && t->load[i].blob == blob)
        return &t->load[i];
    if (!(more = rows_insert(t->load, &t->n, &t->room, sizeof *more, i, 16)))
        return NULL;
    t->load = more;
    t->load[i] = (struct load){ .blob = blob, .size = size };
    return &t->load[i];
}

struct place *load_add(struct load *l, unsigned node)
{
    const size_t i = rows_place(l->place, l->n, node_of, node);
    struct place *more;

    if (i < l->n && l->place[i].node == node)
        return &l->place[i];
    /* most blobs are on a node or two */
    if (!(more = rows_insert(l->place, &l->n, &l->room, sizeof *more, i, 2)))
        return NULL;
    l->place = more;
    l->place[i] = (struct place){ .node = node };
    return &l->place[i];
}

void loads_remove(struct loads *t, struct load *l)
{
    free(l->place);
    rows_remove(t->load, &t->n, sizeof *l, (size_t)(l - t->load));
}

void load_remove(struct load *l, struct place *p)
{
    rows_remove(l->place, &l->n, sizeof *p, (size_t)(p - l->place));
}

const struct place *load_holder(const struct load *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->place[i].has)
            return &l->place[i];
    return NULL;
}

bool load_is_moving(const struct load *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (!l->place[i].has)
            return true;
    return false;
}

uint64_t load_least(const struct load *l)
{
    uint64_t least = l->size;

    for (size_t i = 0; i < l->n; i++)
        if (l->place[i].many && !l->place[i].has && l->place[i].had < least)
            least = l->place[i].had;
    return least;
}
