#include "kernel/group/group.h"

#include <stdlib.h>

struct group *group_create(const char *name, struct err *err)
{
    struct group *g = calloc(1, sizeof *g);

    if (!g)
        return err_null(err, "group %s: out of memory", name);
    g->name = strdup(name);
    g->cells = json_array();
    if (!g->name || !g->cells) {
        group_destroy(g);
        return err_null(err, "group %s: out of memory", name);
    }
    return g;
}

static void rank_release(struct rank *r)
{
    json_decref(r->known);
    json_decref(r->cells);
}

void group_destroy(struct group *g)
{
    if (!g)
        return;
    for (unsigned k = 0; k < g->size; k++)
        rank_release(&g->rank[k]);
    free(g->rank);
    free(g->name);
    free(g->on);
    json_decref(g->cells);
    free(g);
}

static int rank_init(struct rank *r, unsigned number)
{
    *r = (struct rank){ .number = number, .known = json_object(), .cells = json_array() };
    if (r->known && r->cells)
        return 0;
    rank_release(r);
    return -1;
}

int group_grow(struct group *g, unsigned n, struct err *err)
{
    const unsigned old = g->size;
    struct rank *slot;

    if (n <= old)
        return 0;
    if (n > GROUP_MAX)
        return err_set(err, "-n %u: a group has at most %u ranks", n, GROUP_MAX);
    if (!(slot = realloc(g->rank, n * sizeof *slot)))
        return err_set(err, "-n %u: out of memory", n);
    g->rank = slot;
    for (; g->size < n; g->size++)
        if (rank_init(&slot[g->size], g->size) < 0)
            goto shrink;
    return 0;
shrink:
    while (g->size > old)
        rank_release(&slot[--g->size]);
    return err_set(err, "-n %u: out of memory", n);
}

bool rank_alive(const struct rank *r)
{
    return r->state == RANK_STARTING || r->state == RANK_IDLE || r->state == RANK_BUSY;
}

int group_missing(const struct group *g, unsigned n, struct ranks *missing)
{
    for (unsigned k = 0; k < n; k++)
        if ((k >= g->size || !rank_alive(&g->rank[k])) && ranks_add(missing, k) < 0)
            return -1;
    return 0;
}

int group_living(const struct group *g, struct ranks *living)
{
    for (unsigned k = 0; k < g->size; k++)
        if (rank_alive(&g->rank[k]) && ranks_add(living, k) < 0)
            return -1;
    return 0;
}

struct rank *group_worker(const struct group *g, uint32_t worker)
{
    for (unsigned k = 0; worker && k < g->size; k++)
        if (g->rank[k].worker == worker)
            return &g->rank[k];
    return NULL;
}

int rank_start(struct rank *r, uint32_t worker, unsigned node, struct err *err)
{
    if (json_object_clear(r->known) < 0 || json_array_clear(r->cells) < 0)
        return err_set(err, "rank %u: out of memory", r->number);
    r->worker = worker;
    r->node = node;
    r->state = RANK_STARTING;
    r->pid = 0;
    r->since_ns = 0;
    r->is_new = true;
    r->lives++;
    return 0;
}

void rank_end(struct rank *r)
{
    r->state = r->state == RANK_STOPPING ? RANK_NONE : RANK_DEAD;
    r->worker = 0;
    r->pid = 0;
    json_object_clear(r->known);
    json_array_clear(r->cells);
}

void group_break(struct group *g)
{
    g->distributed = false;
    g->broken = true;
}

static bool all_new(const struct group *g)
{
    for (unsigned k = 0; k < g->size; k++)
        if (rank_alive(&g->rank[k]) && !g->rank[k].is_new)
            return false;
    return true;
}

bool group_open_world(struct group *g, unsigned world)
{
    const bool same = g->world == world && !g->broken;

    if (g->world != world)
        g->worlds++;
    if (all_new(g))
        g->restarts = 0;
    else if (g->broken)
        g->restarts++;
    g->world = world;
    g->broken = g->distributed = false; /* its ranks say it anew when they are done */
    return same;
}

void group_forget_versions(struct group *g)
{
    for (unsigned k = 0; k < g->size; k++)
        json_object_clear(g->rank[k].known);
}

static bool holds(const json_t *cells, json_int_t count)
{
    for (size_t k = json_array_size(cells); k > 0; k--)
        if (json_integer_value(json_array_get(cells, k - 1)) == count)
            return true;
    return false;
}

int rank_missed(const struct group *g, const struct rank *r, struct buf *out)
{
    int missed = 0;

    for (size_t k = 0; k < json_array_size(g->cells); k++) {
        const json_int_t count = json_integer_value(json_array_get(g->cells, k));

        if (holds(r->cells, count))
            continue;
        if (buf_addf(out, "%s%" JSON_INTEGER_FORMAT, missed ? ", " : "", count) < 0)
            return -1;
        missed++;
    }
    return missed;
}

static int cells_add(json_t *cells, unsigned count)
{
    return holds(cells, count) ? 0 : json_array_append_new(cells, json_integer(count));
}

int group_ran(struct group *g, const struct ranks *where, unsigned count)
{
    if (cells_add(g->cells, count) < 0)
        return -1;
    for (long k = ranks_next(where, 0); k >= 0; k = ranks_next(where, (unsigned)k + 1)) {
        if ((unsigned)k >= g->size || cells_add(g->rank[k].cells, count) < 0)
            return -1;
        g->rank[k].is_new = false;
    }
    return 0;
}
