/* SPDX-License-Identifier: BSD-3-Clause */
/* ledger.c - records which version of each of home's variables a rank has (declared in
 * vars_plan.h). */
#include "kernel/group/vars_plan.h"

#include <stdlib.h>

int ledger_settled(struct group *g, const struct ranks *to, const json_t *captured)
{
    size_t at;
    json_t *row;

    json_array_foreach (json_object_get(captured, "names"), at, row) {
        const char *name = json_string_value(json_array_get(row, 0));

        if (json_integer_value(json_array_get(row, 5)) != CAPTURED_PULLED)
            continue;
        RANKS_EACH (k, to) {
            const char *said = json_string_value(json_object_get(g->rank[k].said, name));

            if (said && strcmp(said, "gone") != 0 &&
                json_object_set(g->rank[k].keeps, name, json_array_get(row, 1)) < 0)
                return -1;
        }
    }
    return 0;
}

static int rank_sent(struct rank *r, const char *name, json_t *version)
{
    (void)json_object_del(r->keeps, name);
    (void)json_object_del(r->pulled, name);
    (void)json_object_del(r->own, name);
    return json_object_set(r->known, name, version) < 0 ||
                   json_object_set_new(r->unsure, name, json_true()) < 0
               ? -1
               : 0;
}

int ledger_bundle_sent(struct group *g, const struct vars_bundle *s, const json_t *captured)
{
    size_t at;
    json_t *row;

    json_array_foreach (json_object_get(captured, "names"), at, row) {
        const char *name = json_string_value(json_array_get(row, 0));

        if (!names_hold(s->names, slice_text(name)))
            continue;
        RANKS_EACH (k, &s->ranks)
            if (rank_sent(&g->rank[k], name, json_array_get(row, 1)) < 0)
                return -1;
    }
    return 0;
}

static int rank_assigns(struct rank *r, const char *name, json_t *version)
{
    json_t *was = json_object_get(r->known, name);

    if (was && json_equal(was, version))
        return 0;
    if (json_object_set_new(r->before, name, was ? json_incref(was) : json_null()) < 0)
        return -1;
    return json_object_set(r->known, name, version);
}

/* For the names that are not sent: those of "assigned", and those with CAPTURED_SPARE of which the
 * rank has a value of its own. */
static int rank_assigns_all(struct rank *r, const json_t *captured)
{
    size_t at;
    json_t *row;
    int rc = 0;

    json_object_clear(r->before);
    json_array_foreach (json_object_get(captured, "assigned"), at, row) {
        if (rc == 0)
            rc = rank_assigns(r, json_string_value(json_array_get(row, 0)), json_array_get(row, 1));
    }
    json_array_foreach (json_object_get(captured, "names"), at, row) {
        if (rc == 0 && json_integer_value(json_array_get(row, 5)) == CAPTURED_SPARE)
            rc = rank_assigns(r, json_string_value(json_array_get(row, 0)), json_array_get(row, 1));
    }
    return rc;
}

int ledger_assigned(struct group *g, const struct ranks *to, const json_t *captured)
{
    RANKS_EACH (k, to)
        if (rank_assigns_all(&g->rank[k], captured) < 0)
            return -1;
    return 0;
}

static const json_t *version_of(const json_t *rows, const char *name)
{
    size_t at;
    json_t *row;

    json_array_foreach ((json_t *)rows, at, row) {
        const char *one = json_string_value(json_array_get(row, 0));

        if (one && strcmp(one, name) == 0)
            return json_array_get(row, 1);
    }
    return NULL;
}

static int rank_bound_one(struct group *g, struct rank *r, const json_t *captured, const char *name,
                          struct buf *unknown)
{
    const json_t *version = version_of(json_object_get(captured, "names"), name);

    if (json_object_set_new(r->own, name, json_true()) < 0)
        return -1;
    if (version)
        return json_object_set(r->known, name, (json_t *)version);
    if (version_of(json_object_get(captured, "assigned"), name)) /* done by ledger_assigned() */
        return 0;
    if (json_object_set_new(r->bound, name, json_true()) < 0)
        return -1;
    if (json_object_get(g->bound, name))
        return 0;
    if (buf_addf(unknown, "%s%s", unknown->n ? "," : "", name) < 0)
        return -1;
    return json_object_set_new(g->bound, name, json_true());
}

int ledger_bound(struct group *g, struct rank *r, const json_t *captured, struct slice names,
                 struct buf *unknown)
{
    char *copy = slice_copy(names), *rest = NULL;
    int rc = copy ? 0 : -1;

    for (char *one = copy ? strtok_r(copy, ",", &rest) : NULL; rc == 0 && one;
         one = strtok_r(NULL, ",", &rest))
        rc = rank_bound_one(g, r, captured, one, unknown);
    free(copy);
    return rc;
}

int ledger_ended_well(struct rank *r, const json_t *captured)
{
    size_t at;
    json_t *row;
    int rc = 0;

    json_array_foreach (json_object_get(captured, "assigned"), at, row) {
        if (rc == 0)
            rc = json_object_set_new(r->own, json_string_value(json_array_get(row, 0)),
                                     json_true());
    }
    json_array_foreach (json_object_get(captured, "names"), at, row) {
        if (rc == 0 && json_integer_value(json_array_get(row, 5)) == CAPTURED_SPARE)
            rc = json_object_set_new(r->own, json_string_value(json_array_get(row, 0)),
                                     json_true());
    }
    json_array_foreach (json_object_get(captured, "unsent"), at, row) {
        if (rc == 0 && !json_is_true(json_array_get(row, 2)))
            rc = json_object_set_new(r->own, json_string_value(json_array_get(row, 0)),
                                     json_true());
    }
    return rc;
}

/* Version 0: home has no such variable. */
static int rank_newer(struct rank *r, const char *name, const json_t *version)
{
    if (json_object_del(r->bound, name) < 0 || json_integer_value(version) == 0)
        return 0;
    return json_object_set(r->known, name, (json_t *)version);
}

/* What home has not told yet stays: a call of another thread may have looked before. */
int ledger_newer(struct group *g, const json_t *captured)
{
    size_t at;
    json_t *row;
    int rc = 0;

    json_array_foreach (json_object_get(captured, "newer"), at, row) {
        const char *name = json_string_value(json_array_get(row, 0));

        for (unsigned k = 0; name && k < g->size; k++)
            if (rank_newer(&g->rank[k], name, json_array_get(row, 1)) < 0)
                rc = -1;
        if (name)
            (void)json_object_del(g->bound, name);
    }
    return rc;
}

json_t *ledger_doubtful(const struct group *g, const struct ranks *to)
{
    json_t *names = json_object(), *list = json_array();
    const char *name;
    json_t *value;
    int rc = names && list ? 0 : -1;

    for (long k = ranks_next(to, 0); rc == 0 && k >= 0; k = ranks_next(to, (unsigned)k + 1))
        rc = json_object_update(names, g->rank[k].before);
    json_object_foreach (names, name, value) {
        if (rc == 0)
            rc = json_array_append_new(list, json_string(name));
    }
    json_decref(names);
    if (rc == 0)
        return list;
    json_decref(list);
    return NULL;
}

int ledger_pulled(struct group *g, unsigned from, char *const *names)
{
    int rc = 0;

    for (; rc == 0 && *names; names++)
        for (unsigned k = 0; rc == 0 && k < g->size; k++)
            if (k == from || json_object_get(g->rank[k].pulled, *names))
                rc = json_object_set_new(g->rank[k].pulled, *names, json_boolean(k == from));
    return rc;
}

int ledger_said(struct rank *r, const json_t *said)
{
    int rc = json_object_update(r->said, (json_t *)said);
    const char *name;
    json_t *still;

    json_object_foreach (r->pulled, name, still) {
        const char *one = json_string_value(json_object_get(r->said, name));

        if (rc == 0 && json_is_false(still) && one &&
            (strcmp(one, "same") == 0 || text_begins(one, ANSWER_HELD) ||
             text_begins(one, ANSWER_CLASS)))
            rc = json_object_set_new(r->said, name, json_string("changed"));
    }
    return rc;
}

/* Had it a value? */
static bool rank_forgets(struct rank *r, const char *name)
{
    const bool known = json_object_del(r->known, name) == 0;

    (void)json_object_del(r->pulled, name);
    (void)json_object_del(r->own, name);
    return json_object_del(r->keeps, name) == 0 || known;
}

json_t *ledger_deleted(struct group *g, const struct ranks *to, const json_t *captured)
{
    json_t *found = json_array(), *one;
    size_t at;

    json_array_foreach (json_object_get(captured, "deleted"), at, one) {
        bool known = false;

        for (long k = json_is_string(one) ? ranks_next(to, 0) : -1; k >= 0;
             k = ranks_next(to, (unsigned)k + 1))
            known = rank_forgets(&g->rank[k], json_string_value(one)) || known;
        if (known && json_array_append(found, one) < 0) {
            json_decref(found);
            return NULL;
        }
    }
    return found;
}

/* ---- names whose new value home can't send ---- */

/* Has the rank the value of this name that home sent earlier? */
static bool has_earlier(const struct group *g, long rank, const char *name)
{
    if ((unsigned)rank >= g->size)
        return false;
    return json_object_get(g->rank[rank].known, name) && !json_object_get(g->rank[rank].own, name);
}

int ledger_find_unsent(const struct group *g, const struct ranks *to, const json_t *captured,
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

json_t *ledger_delete_unsent(const struct group *g, const struct ranks *to, const json_t *captured)
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
