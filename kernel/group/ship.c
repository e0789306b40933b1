#include "kernel/group/ship.h"

#include <stdlib.h>

void shipments_release(struct shipments *s)
{
    for (size_t k = 0; k < s->n; k++) {
        free(s->item[k].names);
        ranks_release(&s->item[k].ranks);
    }
    free(s->item);
    *s = (struct shipments)SHIPMENTS_INIT;
}

static bool rows_ok(const json_t *captured)
{
    size_t k;
    json_t *row;

    if (!json_is_array(captured))
        return false;
    json_array_foreach((json_t *)captured, k, row) if (!json_is_string(json_array_get(row, 0)) ||
                                                       !json_is_integer(json_array_get(row, 1))) return false;
    return true;
}

static bool captured_ok(const json_t *captured)
{
    const json_t *assigned = json_object_get(captured, "assigned");

    return rows_ok(json_object_get(captured, "names")) && (!assigned || rows_ok(assigned));
}

/* The names that the rank lacks, comma-separated. */
static int lacking(const struct rank *r, const json_t *captured, struct buf *names)
{
    size_t k;
    json_t *row;

    json_array_foreach(json_object_get(captured, "names"), k, row)
    {
        const char *name = json_string_value(json_array_get(row, 0));
        const json_t *version = json_object_get(r->known, name);

        if (version && json_equal(version, json_array_get(row, 1)))
            continue;
        if (buf_addf(names, "%s%s", names->n ? "," : "", name) < 0)
            return -1;
    }
    return 0;
}

static struct shipment *shipment_named(struct shipments *s, struct slice names)
{
    for (size_t k = 0; k < s->n; k++)
        if (slice_equal(slice_text(s->item[k].names), names))
            return &s->item[k];
    return NULL;
}

static struct shipment *shipment_add(struct shipments *s, struct buf *names)
{
    struct shipment *item = realloc(s->item, (s->n + 1) * sizeof *item);

    if (!item)
        return NULL;
    s->item = item;
    item[s->n] = (struct shipment){ .names = buf_take(names) };
    return item[s->n].names ? &item[s->n++] : NULL;
}

static int plan_rank(const struct group *g, unsigned rank, const json_t *captured, struct shipments *out)
{
    struct buf names = BUF_INIT;
    struct shipment *s;
    int rc = -1;

    if (rank >= g->size || lacking(&g->rank[rank], captured, &names) < 0)
        goto out;
    rc = 0;
    if (names.n == 0)
        goto out;
    if (!(s = shipment_named(out, buf_slice(&names))))
        s = shipment_add(out, &names);
    rc = s ? ranks_add(&s->ranks, rank) : -1;
out:
    buf_release(&names);
    return rc;
}

int shipments_plan(const struct group *g, const struct ranks *to, const json_t *captured, struct shipments *out,
                   struct err *err)
{
    *out = (struct shipments)SHIPMENTS_INIT;
    if (!captured_ok(captured))
        return err_set(err, "home answered CAPTURE with something that is no list of names");
    for (long k = ranks_next(to, 0); k >= 0; k = ranks_next(to, (unsigned)k + 1))
        if (plan_rank(g, (unsigned)k, captured, out) < 0) {
            shipments_release(out);
            return err_set(err, "out of memory while planning what travels to rank %ld", k);
        }
    return 0;
}

static bool names_hold(const char *names, const char *name)
{
    const size_t n = strlen(name);

    for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

int shipment_sent(struct group *g, const struct shipment *s, const json_t *captured)
{
    size_t at;
    json_t *row;

    json_array_foreach(json_object_get(captured, "names"), at, row)
    {
        const char *name = json_string_value(json_array_get(row, 0));

        if (!names_hold(s->names, name))
            continue;
        for (long k = ranks_next(&s->ranks, 0); k >= 0; k = ranks_next(&s->ranks, (unsigned)k + 1))
            if (json_object_set(g->rank[k].known, name, json_array_get(row, 1)) < 0)
                return -1;
    }
    return 0;
}

int group_assigned(struct group *g, const struct ranks *to, const json_t *captured)
{
    size_t at;
    json_t *row;

    json_array_foreach(
        json_object_get(captured, "assigned"), at,
        row) for (long k = ranks_next(to, 0); k >= 0;
                  k = ranks_next(to, (unsigned)k + 1)) if (json_object_set(g->rank[k].known,
                                                                           json_string_value(json_array_get(row, 0)),
                                                                           json_array_get(row, 1)) < 0) return -1;
    return 0;
}
