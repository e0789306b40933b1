/* loads.c - see loads.h. Two sorted arrays, searched by halves: numbers of blobs grow, so that new ones go to the end.
 */
#include "kernel/agents/loads.h"

#include <stdlib.h>
#include <string.h>

void loads_release(struct loads *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->load[i].place);
    free(t->load);
    *t = (struct loads)LOADS_INIT;
}

/* Where the blob stands, or belongs. */
static size_t find_load(const struct loads *t, uint64_t blob)
{
    size_t low = 0, high = t->n;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (t->load[mid].blob < blob)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static size_t find_place(const struct load *l, unsigned node)
{
    size_t low = 0, high = l->n;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (l->place[mid].node < node)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct load *loads_get(const struct loads *t, uint64_t blob)
{
    const size_t i = find_load(t, blob);

    return i < t->n && t->load[i].blob == blob ? &t->load[i] : NULL;
}

struct place *load_at(const struct load *l, unsigned node)
{
    const size_t i = find_place(l, node);

    return i < l->n && l->place[i].node == node ? &l->place[i] : NULL;
}

struct load *loads_add(struct loads *t, uint64_t blob, uint64_t size)
{
    const size_t i = find_load(t, blob);

    if (i < t->n && t->load[i].blob == blob)
        return &t->load[i];
    if (t->n == t->room) {
        const size_t room = t->room ? t->room * 2 : 16;
        struct load *load = realloc(t->load, room * sizeof *load);

        if (!load)
            return NULL;
        t->load = load;
        t->room = room;
    }
    memmove(&t->load[i + 1], &t->load[i], (t->n++ - i) * sizeof *t->load);
    t->load[i] = (struct load){ .blob = blob, .size = size };
    return &t->load[i];
}

struct place *load_add(struct load *l, unsigned node)
{
    const size_t i = find_place(l, node);

    if (i < l->n && l->place[i].node == node)
        return &l->place[i];
    if (l->n == l->room) {
        const size_t room = l->room ? l->room * 2 : 2; /* most blobs are on a node or two */
        struct place *place = realloc(l->place, room * sizeof *place);

        if (!place)
            return NULL;
        l->place = place;
        l->room = room;
    }
    memmove(&l->place[i + 1], &l->place[i], (l->n++ - i) * sizeof *l->place);
    l->place[i] = (struct place){ .node = node };
    return &l->place[i];
}

void loads_remove(struct loads *t, struct load *l)
{
    const size_t i = (size_t)(l - t->load);

    free(l->place);
    memmove(l, l + 1, (--t->n - i) * sizeof *l);
}

void load_remove(struct load *l, struct place *p)
{
    const size_t i = (size_t)(p - l->place);

    memmove(p, p + 1, (--l->n - i) * sizeof *p);
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
