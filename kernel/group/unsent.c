/* SPDX-License-Identifier: BSD-3-Clause */
/* unsent.c - names whose new value home can't send (declared in vars_bundle.h). */
#include "kernel/group/vars_bundle.h"

/* Has the rank the value of this name that home sent earlier? */
static bool has_earlier(const struct group *g, long rank, const char *name)
{
    if ((unsigned)rank >= g->size)
        return false;
    return json_object_get(g->rank[rank].known, name) && !json_object_get(g->rank[rank].own, name);
}

int unsent_find(const struct group *g, const struct ranks *to, const json_t *captured,
                struct unsent_name *out)
{
    size_t at;
    json_t *row;

    *out = (struct unsent_name)UNSENT_NAME_INIT;
    json_array_foreach (json_object_get(captured, "unsent"), at, row) {
        const char *name = json_string_value(json_array_get(row, 0));

        if (!name || !json_is_true(json_array_get(row, 2)))
            continue;
        RANKS_EACH (k, to)
            if (has_earlier(g, k, name) && ranks_add(&out->ranks, (unsigned)k) < 0) {
                ranks_release(&out->ranks);
                return -1;
            }
        if (ranks_count(&out->ranks) == 0)
            continue;
        out->name = name;
        out->why = json_string_value(json_array_get(row, 1));
        return 0;
    }
    return 0;
}

json_t *unsent_delete(const struct group *g, const struct ranks *to, const json_t *captured)
{
    json_t *found = json_object(), *row;
    size_t at;
    int rc = found ? 0 : -1;

    json_array_foreach (json_object_get(captured, "unsent"), at, row) {
        const char *name = json_string_value(json_array_get(row, 0));

        if (!name || json_is_true(json_array_get(row, 2)))
            continue;
        RANKS_EACH (k, to)
            if (rc == 0 && has_earlier(g, k, name))
                rc = json_object_set(found, name, json_array_get(row, 1));
    }
    if (rc == 0)
        return found;
    json_decref(found);
    return NULL;
}
