/* BIND, RUN and FETCH: one message to each agent, whatever the number of its ranks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"

int fanout_send(struct cell *c, const struct ranks *to, const struct span *m)
{
    size_t n;
    uint32_t *workers = group_workers(c->group, to, &n);
    int rc = workers ? 0 : -1;

    if (n)
        rc = cell_send(c, workers, n, m);
    else if (!workers)
        cell_fail(c, "RuntimeError", "out of memory");
    free(workers);
    return rc;
}

bool fanout_is_near(const struct cell *c, const struct ranks *to)
{
    const struct rank *rank = c->group->rank;
    const long first = ranks_next(to, 0);

    for (long k = first; k >= 0; k = ranks_next(to, (unsigned)k + 1))
        if (rank[k].node != rank[first].node)
            return false;
    return true;
}

/* With a cast over machines only the first has the blob, and the others get it from there. */
static int bind_ranks(struct cell *c, const struct ranks *to, struct span *m)
{
    const long root = ranks_next(to, 0);
    struct ranks one = RANKS_INIT, others = RANKS_INIT;
    int rc;

    if (m->v[F_BIND_CAST].s.n == 0 || fanout_is_near(c, to))
        return fanout_send(c, to, m);
    if (ranks_copy(&others, to) < 0 || ranks_add(&one, (unsigned)root) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
        rc = -1;
    } else {
        ranks_remove(&others, (unsigned)root);
        rc = fanout_send(c, &one, m);
        m->blob = m->blob_size = 0;
        if (rc == 0)
            rc = fanout_send(c, &others, m);
    }
    ranks_release(&one);
    ranks_release(&others);
    return rc;
}

void fanout_ship(struct cell *c, uint64_t blob, uint64_t blob_size, const char *cast)
{
    const struct shipment *s = &c->ships.item[c->packed];
    struct span m = { .kind = SPAN_BIND, .cell = c->id, .blob = blob, .blob_size = blob_size };

    m.v[F_BIND_HOW].u64 = BIND_DICT;
    m.v[F_BIND_CAST].s = slice_text(cast);
    if (bind_ranks(c, &s->ranks, &m) == 0 && shipment_sent(c->group, s, c->captured) < 0)
        log_warn("fanout", "out of memory: names will be sent again");
    notebook_drop(c->nb, blob);
}

/* ---- the world's environment ---- */

static void set(json_t *env, const char *name, json_t *value)
{
    json_object_set_new(env, name, value);
}

/* The nodes of the world's ranks, in the order of ranks, counted from 0; runs of equal ones as
 * "0*4,1*4". */
static int add_layout(const struct cell *c, struct buf *out)
{
    const struct rank *rank = c->group->rank;
    unsigned most = 0, nodes = 0, *number, run = 1;
    int rc;

    for (unsigned k = 0; k < c->world; k++)
        most = rank[k].node > most ? rank[k].node : most;
    /* by node: its number in the world + 1; 0: it has none yet */
    number = calloc(most + 1u, sizeof *number);
    rc = number ? 0 : -1;
    for (unsigned k = 0; rc == 0 && k < c->world; k++) {
        if (!number[rank[k].node])
            number[rank[k].node] = ++nodes;
        if (k + 1 < c->world && rank[k + 1].node == rank[k].node) {
            run++;
            continue;
        }
        rc = buf_addf(out, "%s%u*%u", out->n ? "," : "", number[rank[k].node] - 1, run);
        run = 1;
    }
    free(number);
    return rc;
}

static bool spans_nodes(const struct cell *c)
{
    for (unsigned k = 1; k < c->world; k++)
        if (c->group->rank[k].node != c->group->rank[0].node)
            return true;
    return false;
}

/* Where the world meets: on rank 0's machine, at an address that the others reach. */
static int master(const struct cell *c, struct buf *out)
{
    unsigned *nodes = spans_nodes(c) ? calloc(c->world, sizeof *nodes) : NULL;
    int rc = 0;

    for (unsigned k = 0; nodes && k < c->world; k++)
        nodes[k] = c->group->rank[k].node;
    if (nodes)
        rc = meet_at(c->nb, nodes[0], nodes, c->world, out);
    free(nodes);
    return rc == 0 && out->n == 0 ? buf_add_text(out, "127.0.0.1") : rc;
}

static bool all_own_gpus(const struct cell *c)
{
    struct ranks all = RANKS_INIT;
    const bool own = c->world && ranks_add_range(&all, 0, c->world - 1) == 0 &&
                     cast_gpus_are_own(c, &all);

    ranks_release(&all);
    return own;
}

static json_t *world_env(const struct cell *c)
{
    const struct group *g = c->group;
    struct buf meets = BUF_INIT;
    const char *address = master(c, &meets) == 0 ? meets.p : "127.0.0.1";
    json_t *env = json_object(), *world = json_sprintf("%u", c->world);

    set(env, "WORLD_SIZE", json_incref(world));
    set(env, "ROLE_WORLD_SIZE", json_incref(world));
    set(env, "JAX_NUM_PROCESSES", world);
    set(env, "MASTER_ADDR", json_string(address));
    set(env, "MASTER_PORT", json_sprintf("%u", g->port));
    set(env, "JAX_COORDINATOR_ADDRESS",
        json_sprintf(strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, g->port));
    buf_release(&meets);
    if (g->gpus && all_own_gpus(c)) /* each has so many for itself, so NCCL will do */
        set(env, "CELLSPAN_GPUS", json_sprintf("%u", g->gpus));
    set(env, "TORCHELASTIC_RUN_ID",
        c->passing ? json_sprintf("%s-s%" PRIu64, c->nb->run_id, c->id)
                   : json_sprintf("%s-%u", c->nb->run_id, g->number));
    set(env, "TORCHELASTIC_RESTART_COUNT", json_sprintf("%u", g->restarts));
    set(env, "TORCHELASTIC_MAX_RESTARTS", json_string("0"));
    for (char **e = c->plan.env; e && *e; e++) {
        char *value = strchr(*e, '='), *name = value ? strndup(*e, (size_t)(value - *e)) : NULL;

        if (name)
            set(env, name, json_string(value + 1));
        free(name);
    }
    return env;
}

int fanout_add_world(const struct cell *c, json_t *to)
{
    struct buf layout = BUF_INIT;
    int rc = add_layout(c, &layout);

    if (rc == 0 && (json_object_set_new(to, "env", world_env(c)) < 0 ||
                    json_object_set_new(to, "layout", json_string(layout.p ? layout.p : "")) < 0))
        rc = -1;
    buf_release(&layout);
    return rc;
}

static json_t *script_argv(const struct cell *c)
{
    json_t *argv = json_array();

    for (char **a = c->plan.argv; a && *a; a++)
        json_array_append_new(argv, json_string(*a));
    return argv;
}

/* How many cells a new rank has not run; their numbers go to *missed. */
static int missed_of(const struct group *g, const struct rank *r, struct buf *missed)
{
    buf_clear(missed);
    return r->is_new ? rank_missed(g, r, missed) : 0;
}

/* One line for those that missed the same cells. */
static void note_new_like(struct cell *c, size_t first, const struct buf *cells, size_t missed,
                          struct ranks *told)
{
    const struct group *g = c->group;
    struct ranks same = RANKS_INIT;
    struct buf other = BUF_INIT, who = BUF_INIT;
    bool gone = false;

    for (size_t k = first; k < c->n; k++) {
        const struct rank *r = &g->rank[c->member[k].rank];

        if (missed_of(g, r, &other) <= 0 || !slice_equal(buf_slice(&other), buf_slice(cells)))
            continue;
        gone = gone || r->lives > 1;
        if (ranks_add(&same, r->number) < 0 || ranks_add(told, r->number) < 0)
            break;
    }
    buf_clear(&other);
    if (ranks_format(&same, &who) < 0 || text_shorten(&who, ranks_count(&same)) < 0 ||
        buf_add_slice(&other, buf_slice(cells)) < 0 || text_shorten(&other, missed) < 0)
        log_warn("fanout", "out of memory: new ranks are not told of");
    else if (ranks_count(&same) == 1)
        stream_note(c, "rank %s is new: %sit has not run cell%s %s", who.p,
                    gone ? "its variables are gone, " : "", missed > 1 ? "s" : "", other.p);
    else if (who.n)
        stream_note(c, "ranks %s are new: %sthey have not run cell%s %s", who.p,
                    gone ? "their variables are gone, " : "", missed > 1 ? "s" : "", other.p);
    ranks_release(&same);
    buf_release(&other);
    buf_release(&who);
}

static void note_new(struct cell *c)
{
    const struct group *g = c->group;
    struct ranks told = RANKS_INIT;
    struct buf cells = BUF_INIT;

    for (size_t k = 0; k < c->n; k++)
        if (!ranks_has(&told, c->member[k].rank)) {
            const int missed = missed_of(g, &g->rank[c->member[k].rank], &cells);

            if (missed > 0)
                note_new_like(c, k, &cells, (size_t)missed, &told);
        }
    ranks_release(&told);
    buf_release(&cells);
}

static void world_open(struct cell *c)
{
    struct group *g = c->group;

    group_open_world(g, c->world);
    note_new(c);
    if (group_ran(g, &c->to, c->count) < 0)
        log_warn("fanout", "out of memory: the ledger misses cell %u", c->count);
}

/* From here on what fails stops those that were told already. */
static void members_begin(struct cell *c)
{
    c->state = CELL_RUNNING;
}

static void member_told(struct cell *c, struct member *member)
{
    struct rank *r = &c->group->rank[member->rank];

    member->worker = r->worker;
    member->state = MEMBER_RUNNING;
    r->state = RANK_BUSY;
    r->since_ns = notebook_now(c->nb);
}

/* Nobody is to wait for those that were not told. */
static void members_leave_out(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_WAITING)
            c->member[k].state = MEMBER_INTERRUPTED;
}

/* All have been told. */
static void members_run(struct cell *c)
{
    live_begin(c);
    hang_begin(c);
}

static int run_one(struct cell *c, const struct ranks *to, struct span *m, bool lead)
{
    const uint64_t base = (c->plan.kind == PLAN_SCRIPT ? RUN_SCRIPT : 0);

    m->v[F_RUN_FLAGS].u64 = base;
    if ((lead && cell_wants_value(c)) || c->plan.gather)
        m->v[F_RUN_FLAGS].u64 |= RUN_RESULT |
                                 (c->plan.into || c->plan.gather ? RUN_RESULT_ALWAYS : 0);
    if (!lead && c->plan.merge == PLAN_RANK0)
        m->v[F_RUN_FLAGS].u64 |= RUN_NO_DISPLAY;
    if (cell_is_piped(c))
        m->v[F_RUN_FLAGS].u64 |=
            RUN_PIPED | (lead && c->stdin_allowed && c->member[0].rank == 0 ? RUN_STDIN : 0);
    else if (c->stdin_allowed)
        m->v[F_RUN_FLAGS].u64 |= RUN_STDIN;
    m->blob = m->v[F_RUN_FLAGS].u64 & RUN_RESULT ? c->nb->next_blob++ : 0;
    if (fanout_send(c, to, m) < 0)
        return -1;
    for (size_t k = 0; k < c->n; k++)
        if (ranks_has(to, c->member[k].rank))
            member_told(c, &c->member[k]);
    return 0;
}

/* The lead rank, whose value is the cell's, gets a message of its own; with --gather each rank, for
 * each has a blob. Where some can't be sent theirs, those that have it already are interrupted. */
static int run_all(struct cell *c, struct span *m)
{
    struct ranks one = RANKS_INIT, others = RANKS_INIT;
    int rc = ranks_copy(&others, &c->to);

    members_begin(c);
    for (size_t k = 0; rc == 0 && k < c->n && (k == 0 || c->plan.gather); k++) {
        ranks_clear(&one);
        rc = ranks_add(&one, c->member[k].rank);
        ranks_remove(&others, c->member[k].rank);
        if (rc == 0)
            rc = run_one(c, &one, m, k == 0);
    }
    if (rc == 0 && ranks_count(&others))
        rc = run_one(c, &others, m, false);
    ranks_release(&one);
    ranks_release(&others);
    if (rc < 0) {
        /* unless it has failed in other words already */
        cell_fail(c, "RuntimeError", "out of memory");
        members_leave_out(c);
    }
    return rc;
}

/* Of a script: its text, for machines where the file is not. */
static struct slice code_of(const struct cell *c)
{
    if (c->plan.kind == PLAN_SCRIPT)
        return text_slice(c->captured, "script");
    return slice_of(c->plan.body ? c->plan.body : "", c->plan.body ? c->plan.body_size : 0);
}

/* RUN's names: those that ranks are to watch, and those that go, for home has deleted them. Empty
 * where there are none. */
static int add_names(const struct cell *c, struct buf *out)
{
    json_t *watch = json_array(), *deleted = group_deleted(c->group, &c->to, c->captured);
    json_t *doubtful = group_doubtful(c->group, &c->to);
    size_t k;
    json_t *row;
    int rc = watch && doubtful && deleted ? 0 : -1;

    json_array_foreach(json_object_get(c->captured, "assigned"), k, row)
    {
        if (rc == 0)
            rc = json_array_append(watch, json_array_get(row, 0));
    }
    if (rc == 0 &&
        (json_array_size(watch) || json_array_size(doubtful) || json_array_size(deleted)))
        rc = text_json(out, json_pack("{s:O, s:O, s:O}", "watch", watch, "doubtful", doubtful,
                                      "deleted", deleted));
    json_decref(watch);
    json_decref(doubtful);
    json_decref(deleted);
    return rc;
}

void fanout_run(struct cell *c)
{
    struct span m = { .kind = SPAN_RUN, .cell = c->id };
    struct buf env = BUF_INIT, argv = BUF_INIT, layout = BUF_INIT, names = BUF_INIT;

    world_open(c);
    logs_note(c->nb, c->id, c->count, c->group->size);
    if (group_assigned(c->group, &c->to, c->captured) < 0)
        log_warn("fanout", "out of memory: names that the cell assigns may be overwritten later");
    if (text_json(&env, world_env(c)) < 0 || text_json(&argv, script_argv(c)) < 0 ||
        add_layout(c, &layout) < 0 || add_names(c, &names) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else {
        m.v[F_RUN_CODE].s = code_of(c);
        m.v[F_RUN_COUNT].u64 = c->count;
        m.v[F_RUN_ENV].s = buf_slice(&env);
        m.v[F_RUN_INIT].s = slice_text(c->plan.init);
        m.v[F_RUN_ARGV].s = buf_slice(&argv);
        m.v[F_RUN_LIMIT].u64 = RESULT_LIMIT;
        m.v[F_RUN_CWD].s = slice_text(c->plan.cwd);
        m.v[F_RUN_LAYOUT].s = buf_slice(&layout);
        m.v[F_RUN_NAMES].s = buf_slice(&names);
        if (run_all(c, &m) == 0)
            members_run(c);
    }
    buf_release(&env);
    buf_release(&argv);
    buf_release(&layout);
    buf_release(&names);
    collect_look(c);
}

bool fanout_pulls_values(const struct cell *c)
{
    const char *ranks = c->plan.kind == PLAN_PULL ? c->plan.ranks : NULL, *digits;

    if (!ranks)
        return false;
    digits = ranks + (ranks[0] == '-');
    return digits[0] && digits[strspn(digits, "0123456789")] == '\0';
}

/* Of one rank all names are fetched at once, so that what they share is shared at home. With --into
 * there is but one, and it is another name there than on the rank. Of several ranks the first is
 * fetched; that the others are there as well is seen before anything is bound. */
static int fetched_names(const struct cell *c, struct buf *out)
{
    if (c->plan.kind != PLAN_PULL)
        return 0;
    for (char **name = c->plan.names + c->pulled; *name; name++)
        if (buf_addf(out, "%s%s", out->n ? "," : "", *name) < 0)
            return -1;
    return 0;
}

/* %pull: from every rank one name after the other. %push: an empty FETCH, which tells how the BINDs
 * went. */
void fanout_fetch(struct cell *c)
{
    struct buf names = BUF_INIT;
    int rc = fetched_names(c, &names);

    members_begin(c);
    if (rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    for (size_t k = 0; rc == 0 && k < c->n; k++) {
        struct span m = { .kind = SPAN_FETCH, .worker = c->member[k].worker, .cell = c->id };

        m.blob = names.n ? c->nb->next_blob++ : 0;
        m.v[F_FETCH_NAMES].s = buf_slice(&names);
        m.v[F_FETCH_LIMIT].u64 = UINT64_MAX;
        m.v[F_FETCH_FLAGS].u64 = fanout_pulls_values(c) && !c->plan.into ? FETCH_KEEP : 0;
        if ((rc = cell_send(c, &c->member[k].worker, 1, &m)) == 0)
            member_told(c, &c->member[k]);
    }
    buf_release(&names);
    if (rc == 0)
        members_run(c);
    else
        members_leave_out(c);
    collect_look(c);
}
