/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/group/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/rows.h"

struct group *group_create(const char *name, struct err *err)
{
    struct group *g = calloc(1, sizeof *g);

    if (!g)
        return err_null(err, "group %s: out of memory", name);
    g->name = strdup(name);
    g->cells = json_array();
    g->bound = json_object();
    if (!g->name || !g->cells || !g->bound) {
        group_destroy(g);
        return err_null(err, "group %s: out of memory", name);
    }
    return g;
}

static void rank_release(struct rank *r)
{
    json_decref(r->known);
    json_decref(r->keeps);
    json_decref(r->pulled);
    json_decref(r->unsure);
    json_decref(r->own);
    json_decref(r->before);
    json_decref(r->bound);
    json_decref(r->said);
    free(r->ran);
}

void group_destroy(struct group *g)
{
    if (!g)
        return;
    for (unsigned k = 0; k < g->size; k++)
        rank_release(&g->rank[k]);
    free(g->rank);
    free(g->hash);
    free(g->initialised);
    free(g->name);
    free(g->on);
    free(g->image);
    free(g->absent);
    free(g->env);
    json_decref(g->changes);
    json_decref(g->cells);
    json_decref(g->bound);
    free(g);
}

struct slice group_env(struct group *g, const struct ranks *to, struct slice env)
{
    bool same = true;

    if (!g->env || !slice_is(env, g->env)) {
        free(g->env);
        g->env = slice_copy(env); /* NULL: the next RUN has it again */
        g->envs++;
    }
    RANKS_EACH (k, to)
        same = same && g->rank[k].env == g->envs;
    return same ? slice_text("") : env;
}

static int rank_init(struct rank *r, unsigned number)
{
    *r = (struct rank){ .number = number,
                        .known = json_object(),
                        .keeps = json_object(),
                        .pulled = json_object(),
                        .unsure = json_object(),
                        .own = json_object(),
                        .before = json_object(),
                        .bound = json_object(),
                        .said = json_object() };
    if (r->known && r->keeps && r->pulled && r->unsure && r->own && r->before && r->bound &&
        r->said)
        return 0;
    rank_release(r);
    return -1;
}

/* ---- the hash table: linear probing ---- */

/* Workers have consecutive numbers, which would stand side by side, in the way of all others. */
static unsigned hash_place(const struct group *g, uint32_t worker)
{
    return worker * UINT32_C(2654435761) >> 14 & (g->hash_size - 1);
}

/* Only living workers. */
static void hash_fill(struct group *g)
{
    memset(g->hash, 0, g->hash_size * sizeof *g->hash);
    g->hash_used = 0;
    for (unsigned k = 0; k < g->size; k++) {
        unsigned at = hash_place(g, g->rank[k].worker);

        while (g->rank[k].worker && g->hash[at])
            at = (at + 1) & (g->hash_size - 1);
        if (g->rank[k].worker) {
            g->hash[at] = k + 1;
            g->hash_used++;
        }
    }
}

/* The place of a worker that has ended stays taken, so the table is made anew when it is full. */
static void hash_add(struct group *g, unsigned rank)
{
    unsigned at = hash_place(g, g->rank[rank].worker);

    if (4 * (g->hash_used + 1) > 3 * g->hash_size) {
        hash_fill(g);
        return;
    }
    while (g->hash[at])
        at = (at + 1) & (g->hash_size - 1);
    g->hash[at] = rank + 1;
    g->hash_used++;
}

static int hash_grow(struct group *g, unsigned n)
{
    unsigned size = g->hash_size ? g->hash_size : 16;
    uint32_t *hash;

    while (size <= 2 * n)
        size *= 2;
    if (size == g->hash_size)
        return 0;
    if (!(hash = calloc(size, sizeof *hash)))
        return -1;
    free(g->hash);
    g->hash = hash;
    g->hash_size = size;
    hash_fill(g);
    return 0;
}

struct rank *group_worker(const struct group *g, uint32_t worker)
{
    for (unsigned at = hash_place(g, worker); worker && g->hash_size && g->hash[at];
         at = (at + 1) & (g->hash_size - 1)) {
        struct rank *r = &g->rank[g->hash[at] - 1];

        if (r->worker == worker)
            return r;
    }
    return NULL;
}

int group_grow(struct group *g, unsigned n, struct err *err)
{
    const unsigned old = g->size;
    struct rank *slot;

    if (n <= old)
        return 0;
    if (n > GROUP_MAX)
        return err_set(err, "-n %u: a group has at most %u ranks", n, GROUP_MAX);
    if (hash_grow(g, n) < 0 || !(slot = realloc(g->rank, n * sizeof *slot)))
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

unsigned group_listed(const struct group *g)
{
    unsigned n = g->size;

    while (n > g->asked && !g->rank[n - 1].worker)
        n--;
    return n;
}

const char *rank_state_text(enum rank_state state)
{
    static const char *const texts[] = {
        [RANK_NONE] = "not started", [RANK_STARTING] = "starting", [RANK_IDLE] = "idle",
        [RANK_BUSY] = "running",     [RANK_STOPPING] = "stopping", [RANK_DEAD] = "dead",
    };

    return texts[state];
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

bool group_shares_gpus(const struct group *g)
{
    return !g->on || text_begins(g->on, "ssh:");
}

bool group_stops(const struct group *g)
{
    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].state == RANK_STOPPING)
            return true;
    return false;
}

/* Forgets its process, and what it has. */
static void rank_forget(struct rank *r)
{
    r->pid = 0;
    r->env = 0;
    r->parking = PARKING_NOT;
    r->n_ran = 0;
    json_object_clear(r->known);
    json_object_clear(r->keeps);
    json_object_clear(r->pulled);
    json_object_clear(r->unsure);
    json_object_clear(r->own);
    json_object_clear(r->before);
    json_object_clear(r->bound);
    json_object_clear(r->said);
}

void rank_start(struct group *g, unsigned rank, uint32_t worker, unsigned node)
{
    struct rank *r = &g->rank[rank];

    rank_forget(r);
    r->worker = worker;
    r->node = node;
    r->notice[0] = '\0';
    r->state = RANK_STARTING;
    r->since_ns = 0;
    r->is_new = true;
    r->lives++;
    hash_add(g, rank);
}

void rank_end(struct rank *r)
{
    r->was_up = r->was_up || r->pid;
    rank_forget(r);
    r->state = r->state == RANK_STOPPING ? RANK_NONE : RANK_DEAD;
    r->worker = 0;
}

void group_break(struct group *g)
{
    g->n_initialised = 0;
    g->broken = true;
}

void group_break_in(struct group *g, const char *why, unsigned count)
{
    group_break(g);
    snprintf(g->lost, sizeof g->lost, "cell %u %s", count, why);
}

static bool all_new(const struct group *g)
{
    for (unsigned k = 0; k < g->size; k++)
        if (rank_alive(&g->rank[k]) && !g->rank[k].is_new)
            return false;
    return true;
}

static struct initialised_world *find_initialised(const struct group *g, unsigned world)
{
    for (unsigned k = 0; k < g->n_initialised; k++)
        if (g->initialised[k].world == world)
            return &g->initialised[k];
    return NULL;
}

bool group_is_initialised(const struct group *g, unsigned world)
{
    return find_initialised(g, world) != NULL;
}

int group_set_initialised(struct group *g)
{
    struct initialised_world *known;

    if (g->broken || find_initialised(g, g->world))
        return 0;
    if (!(known = rows_add(&g->initialised, &g->n_initialised, &g->room_initialised,
                           sizeof *known)))
        return -1;
    *known = (struct initialised_world){ .world = g->world, .port = g->port, .number = g->number };
    return 0;
}

void group_open_world(struct group *g, unsigned world)
{
    struct initialised_world *known = find_initialised(g, world);

    if (known) {
        g->port = known->port;
        g->number = known->number;
        *known = g->initialised[--g->n_initialised];
    } else if (g->world != world) {
        g->number = ++g->worlds;
    }
    if (all_new(g)) {
        g->restarts = 0;
        g->lost[0] = '\0';
    } else if (g->broken) {
        g->restarts++;
    }
    g->world = world;
    g->broken = false;
}

/* What an earlier home pulled is still the rank's own. */
static void forget_pulls(struct rank *r)
{
    const char *name;
    json_t *still;

    json_object_foreach (r->pulled, name, still)
        json_object_set_new(r->pulled, name, json_false());
}

void group_forget_versions(struct group *g)
{
    for (unsigned k = 0; k < g->size; k++) {
        json_object_clear(g->rank[k].known);
        json_object_clear(g->rank[k].keeps);
        forget_pulls(&g->rank[k]);
        json_object_clear(g->rank[k].own);
        json_object_clear(g->rank[k].before);
        json_object_clear(g->rank[k].bound);
    }
    json_object_clear(g->bound);
}

void group_forget_said(struct group *g)
{
    for (unsigned k = 0; k < g->size; k++)
        json_object_clear(g->rank[k].said);
}

static void forget_each(json_t *of, struct slice with_commas)
{
    char *names = slice_copy(with_commas), *rest = NULL;

    for (char *one = names ? strtok_r(names, ",", &rest) : NULL; one;
         one = strtok_r(NULL, ",", &rest))
        json_object_del(of, one);
    free(names);
}

void rank_answered(struct rank *r, bool unbound, struct slice gone, struct slice assigned)
{
    const char *name;
    json_t *value;

    if (unbound)
        json_object_foreach (r->unsure, name, value)
            json_object_del(r->known, name);
    json_object_clear(r->unsure);
    forget_each(r->before, assigned);
    json_object_foreach (r->before, name, value) {
        if (json_is_null(value) || json_object_set(r->known, name, value) < 0)
            json_object_del(r->known, name);
    }
    json_object_clear(r->before);
    forget_each(r->known, gone);
    forget_each(r->keeps, gone);
    forget_each(r->pulled, gone);
    forget_each(r->own, gone);
}

/* ---- the cells that ran ---- */

unsigned rank_cells(const struct rank *r)
{
    unsigned n = 0;

    for (unsigned k = 0; k < r->n_ran; k++)
        n += r->ran[k].n;
    return n;
}

/* "7" or "7-9" */
static int add_range(struct buf *out, json_int_t first, json_int_t last)
{
    if (buf_addf(out, "%s%" JSON_INTEGER_FORMAT, out->n ? ", " : "", first) < 0)
        return -1;
    return last > first ? buf_addf(out, "-%" JSON_INTEGER_FORMAT, last) : 0;
}

static int by_number(const void *a, const void *b)
{
    const json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;

    return (x > y) - (x < y);
}

/* The numbers of the missed cells, in the order in which the cells ran; returns how many. */
static size_t find_missed(const struct group *g, const struct rank *r, unsigned now,
                          json_int_t *number)
{
    unsigned stretch = 0;
    size_t n = 0;

    for (unsigned at = 0; at < json_array_size(g->cells); at++) {
        const json_int_t cell = json_integer_value(json_array_get(g->cells, at));

        while (stretch < r->n_ran && at >= r->ran[stretch].first + r->ran[stretch].n)
            stretch++;
        if (cell != (json_int_t)now && (stretch == r->n_ran || at < r->ran[stretch].first))
            number[n++] = cell;
    }
    return n;
}

int rank_missed(const struct group *g, const struct rank *r, unsigned now, struct buf *out)
{
    json_int_t *number = calloc(json_array_size(g->cells) + 1, sizeof *number);
    size_t n, k, first = 0;
    int rc = 0;

    if (!number)
        return -1;
    n = find_missed(g, r, now, number);
    qsort(number, n, sizeof *number, by_number); /* cells of subshells run between others */
    for (k = 1; k <= n && rc == 0; k++)
        if (k == n || number[k] > number[k - 1] + 1) {
            rc = add_range(out, number[first], number[k - 1]);
            first = k;
        }
    free(number);
    return rc < 0 ? -1 : (int)n;
}

void group_forget_cells(struct group *g)
{
    json_array_clear(g->cells);
    for (unsigned k = 0; k < g->size; k++)
        g->rank[k].was_up = false;
}

/* The index of the cell in the group's ordered list; adds it if it is new. -1: memory is out. */
static long place_of(struct group *g, unsigned count)
{
    size_t at = json_array_size(g->cells);

    while (at > 0 && json_integer_value(json_array_get(g->cells, at - 1)) > (json_int_t)count)
        at--;
    if (at > 0 && json_integer_value(json_array_get(g->cells, at - 1)) == (json_int_t)count)
        return (long)at - 1;
    at = json_array_size(g->cells);
    return json_array_append_new(g->cells, json_integer(count)) < 0 ? -1 : (long)at;
}

/* Records the cell at index `at`; consecutive cells share a range. */
static int ran_add(struct rank *r, unsigned at)
{
    struct stretch *last = r->n_ran ? &r->ran[r->n_ran - 1] : NULL;

    if (last && at < last->first + last->n)
        return 0;
    if (last && at == last->first + last->n) {
        last->n++;
        return 0;
    }
    if (!(last = rows_add(&r->ran, &r->n_ran, &r->room_ran, sizeof *last)))
        return -1;
    *last = (struct stretch){ at, 1 };
    return 0;
}

int group_ran(struct group *g, const struct ranks *where, unsigned count)
{
    const long at = place_of(g, count);

    if (at < 0)
        return -1;
    RANKS_EACH (k, where) {
        if ((unsigned)k >= g->size || ran_add(&g->rank[k], (unsigned)at) < 0)
            return -1;
        g->rank[k].is_new = false;
    }
    return 0;
}
