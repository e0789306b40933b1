/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends RUN and FETCH, and ends the step when all members have ended. */
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_runs.h"
#include "kernel/cell/cell_stops.h"
#include "kernel/cell/error_text.h"
#include "kernel/cell/live_status.h"
#include "kernel/notebook/debugger.h"

#define VALUES_MAX 4096u /* ranks whose values fit into one RETURN */

static json_t *script_argv(const struct cell *c)
{
    json_t *argv = json_array();

    for (char **a = c->plan.argv; a && *a; a++)
        json_array_append_new(argv, json_string(*a));
    return argv;
}

/* How many cells a new rank has not run; *missed: their numbers. */
static int missed_of(const struct cell *c, const struct rank *r, struct buf *missed)
{
    buf_clear(missed);
    return r->is_new ? rank_missed(c->group, r, r->was_up ? 0 : c->from.count, missed) : 0;
}

/* Shows one line for all ranks that missed the same cells and are new for the same reason. */
static void note_new_like(struct cell *c, size_t first, const struct buf *cells, size_t missed,
                          struct ranks *noted)
{
    const struct group *g = c->group;
    struct ranks same = RANKS_INIT;
    struct buf other = BUF_INIT, who = BUF_INIT;
    const bool gone = g->rank[c->member[first].rank].was_up;

    for (size_t k = first; k < c->n; k++) {
        const struct rank *r = &g->rank[c->member[k].rank];

        if (r->was_up != gone || missed_of(c, r, &other) <= 0 ||
            !slice_equal(buf_slice(&other), buf_slice(cells)))
            continue;
        if (ranks_add(&same, r->number) < 0 || ranks_add(noted, r->number) < 0)
            break;
    }
    buf_clear(&other);
    if (ranks_format(&same, &who) < 0 || text_shorten(&who, ranks_count(&same)) < 0 ||
        buf_add_slice(&other, buf_slice(cells)) < 0 || text_shorten(&other, missed) < 0)
        log_warn("run", "out of memory: new ranks are not told of");
    else if (ranks_count(&same) == 1)
        output_note(c, "rank %s is new: %sit has not run cell%s %s", who.p,
                    gone ? "its variables are gone, " : "", missed > 1 ? "s" : "", other.p);
    else if (who.n)
        output_note(c, "ranks %s are new: %sthey have not run cell%s %s", who.p,
                    gone ? "their variables are gone, " : "", missed > 1 ? "s" : "", other.p);
    ranks_release(&same);
    buf_release(&other);
    buf_release(&who);
}

static void note_new(struct cell *c)
{
    const struct group *g = c->group;
    struct ranks noted = RANKS_INIT;
    struct buf cells = BUF_INIT;

    for (size_t k = 0; k < c->n; k++)
        if (!ranks_has(&noted, c->member[k].rank)) {
            const int missed = missed_of(c, &g->rank[c->member[k].rank], &cells);

            if (missed > 0)
                note_new_like(c, k, &cells, (size_t)missed, &noted);
        }
    ranks_release(&noted);
    buf_release(&cells);
}

static void world_open(struct cell *c)
{
    struct group *g = c->group;

    if (!c->from.overlaps)
        group_open_world(g, c->world);
    note_new(c);
    if (group_ran(g, &c->to, c->from.count) < 0)
        log_warn("run", "out of memory: the ledger misses cell %u", c->from.count);
}

static void member_sent(struct cell *c, struct member *member)
{
    struct rank *r = &c->group->rank[member->rank];

    member->worker = r->worker;
    member->state = MEMBER_RUNNING;
    r->state = RANK_BUSY;
    r->env = c->group->envs;
    r->since_ns = notebook_now(c->nb);
}

void run_leave_out(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_WAITING)
            c->member[k].state = MEMBER_INTERRUPTED;
}

static int run_one(struct cell *c, const struct ranks *to, struct span *m, bool lead)
{
    const uint64_t base = (c->plan.kind == PLAN_SCRIPT ? RUN_SCRIPT : 0);

    m->v[F_RUN_FLAGS].u64 = base;
    if ((lead && cell_wants_value(c)) || c->plan.gather)
        m->v[F_RUN_FLAGS].u64 |=
            RUN_RESULT |
            (c->plan.into || c->plan.gather || cell_is_function(c) ? RUN_RESULT_ALWAYS : 0) |
            (cell_is_function(c) && c->n <= VALUES_MAX ? RUN_VALUE : 0);
    if (!lead && c->plan.gather)
        m->v[F_RUN_FLAGS].u64 |= RUN_RESULT_EACH;
    if (!lead && c->plan.merge == PLAN_RANK0)
        m->v[F_RUN_FLAGS].u64 |= RUN_NO_DISPLAY;
    if (cell_is_piped(c))
        m->v[F_RUN_FLAGS].u64 |=
            RUN_PIPED | (lead && c->from.stdin_allowed && c->member[0].rank == 0 ? RUN_STDIN : 0);
    else if (c->from.stdin_allowed)
        m->v[F_RUN_FLAGS].u64 |= RUN_STDIN;
    m->blob = m->v[F_RUN_FLAGS].u64 & RUN_RESULT
                  ? notebook_next_blobs(c->nb, !lead && c->plan.gather ? c->world : 1)
                  : 0;
    if (cell_send_ranks(c, to, m) < 0)
        return -1;
    for (size_t k = 0; k < c->n; k++)
        if (ranks_has(to, c->member[k].rank))
            member_sent(c, &c->member[k]);
    return 0;
}

/* The lead rank's value is the cell's value, so it gets a message of its own. If a message can't be
 * sent, the cell has failed and the ranks that got theirs are interrupted. */
static int run_all(struct cell *c, struct span *m)
{
    struct ranks one = RANKS_INIT, others = RANKS_INIT;
    int rc = ranks_copy(&others, &c->to);

    if (rc == 0 && (rc = ranks_add(&one, c->member[0].rank)) == 0) {
        ranks_remove(&others, c->member[0].rank);
        rc = run_one(c, &one, m, true);
    }
    if (rc == 0 && ranks_count(&others))
        rc = run_one(c, &others, m, false);
    ranks_release(&one);
    ranks_release(&others);
    if (rc < 0) /* an error of cell_send_ranks() stays */
        cell_fail(c, "RuntimeError", "out of memory");
    return rc;
}

/* For a script: its text, which nodes without the file need. */
static struct slice code_of(const struct cell *c)
{
    if (c->plan.kind == PLAN_SCRIPT)
        return text_slice(c->prep.captured, "script");
    return slice_of(c->plan.body ? c->plan.body : "", c->plan.body ? c->plan.body_size : 0);
}

/* RUN's `names`: names that ranks must watch, names that home has deleted, and names whose new
 * value home can't send. Adds nothing if there are none. */
static int add_names(const struct cell *c, struct buf *out)
{
    json_t *watch = json_array(), *deleted = ledger_deleted(c->group, &c->to, c->prep.captured);
    json_t *doubtful = ledger_doubtful(c->group, &c->to);
    json_t *unsent = ledger_delete_unsent(c->group, &c->to, c->prep.captured);
    size_t k;
    json_t *row;
    int rc = watch && doubtful && deleted && unsent ? 0 : -1;

    json_array_foreach (json_object_get(c->prep.captured, "assigned"), k, row) {
        if (rc == 0)
            rc = json_array_append(watch, json_array_get(row, 0));
    }
    if (rc == 0 && (json_array_size(watch) || json_array_size(doubtful) ||
                    json_array_size(deleted) || json_object_size(unsent) || c->group->lost[0]))
        rc = text_json(out,
                       json_pack("{s:O, s:O, s:O, s:O, s:s}", "watch", watch, "doubtful", doubtful,
                                 "deleted", deleted, "unsent", unsent, "lost", c->group->lost));
    json_decref(watch);
    json_decref(doubtful);
    json_decref(deleted);
    json_decref(unsent);
    return rc;
}

/* No limit (0) for calls, and for ranks that end with their cell, because they can't keep the
 * value.
 */
static uint64_t result_limit(const struct cell *c)
{
    return cell_own_group(c) || cell_is_function(c) ? 0 : RESULT_LIMIT;
}

/* -1: the cell has failed, and ranks that run it must be stopped. */
static int run(struct cell *c)
{
    struct span m = { .kind = SPAN_RUN, .cell = c->id };
    struct buf env = BUF_INIT, master = BUF_INIT, argv = BUF_INIT, layout = BUF_INIT;
    struct buf names = BUF_INIT;
    int rc = -1;

    world_open(c);
    notebook_note_ran(c->nb, c->id, c->from.count, c->group->size);
    if (ledger_assigned(c->group, &c->to, c->prep.captured) < 0)
        log_warn("run", "out of memory: names that the cell assigns may be overwritten later");
    if (text_json(&env, world_env(c)) < 0 || text_json(&master, world_master(c)) < 0 ||
        text_json(&argv, script_argv(c)) < 0 || world_add_layout(c, &layout) < 0 ||
        add_names(c, &names) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else {
        m.v[F_RUN_CODE].s = code_of(c);
        m.v[F_RUN_COUNT].u64 = c->from.count;
        m.v[F_RUN_ENV].s = group_env(c->group, &c->to, buf_slice(&env));
        m.v[F_RUN_MASTER].s = buf_slice(&master);
        m.v[F_RUN_INIT].s = slice_text(c->plan.init);
        m.v[F_RUN_ARGV].s = buf_slice(&argv);
        m.v[F_RUN_LIMIT].u64 = result_limit(c);
        m.v[F_RUN_CWD].s = slice_text(c->plan.cwd);
        m.v[F_RUN_LAYOUT].s = buf_slice(&layout);
        m.v[F_RUN_NAMES].s = buf_slice(&names);
        m.v[F_RUN_LOAD].s = slice_of(c->from.load, c->from.load_size);
        m.v[F_RUN_SEED].s = slice_text(c->plan.seed);
        if (!c->from.is_call && c->plan.kind != PLAN_SCRIPT)
            debugger_cell(c->nb, c->group, &c->to, c->id,
                          slice_of(c->from.text, c->from.text_size));
        rc = run_all(c, &m);
    }
    buf_release(&env);
    buf_release(&master);
    buf_release(&argv);
    buf_release(&layout);
    buf_release(&names);
    return rc;
}

bool run_pulls_values(const struct cell *c)
{
    const char *ranks = c->plan.kind == PLAN_PULL ? c->plan.ranks : NULL, *digits;

    if (!ranks)
        return false;
    digits = ranks + (ranks[0] == '-');
    return digits[0] && digits[strspn(digits, "0123456789")] == '\0';
}

int run_add_pulled(const struct cell *c, struct buf *out)
{
    if (c->plan.kind != PLAN_PULL)
        return 0;
    for (char **name = c->plan.names; *name; name++)
        if (buf_addf(out, "%s%s", out->n ? "," : "", *name) < 0)
            return -1;
    return 0;
}

/* %pull: each rank sends all names in one blob. So home binds all or none, and values of a rank
 * that share memory share it at home too. (With --into there is only one name.) %push: an empty
 * FETCH; its DONE tells whether the BINDs succeeded. */
static int fetch(struct cell *c)
{
    const unsigned flags = c->plan.into          ? 0
                           : run_pulls_values(c) ? FETCH_DICT | FETCH_KEEP
                                                 : FETCH_DICT;
    struct buf names = BUF_INIT;
    int rc = run_add_pulled(c, &names);

    if (rc < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    for (size_t k = 0; rc == 0 && k < c->n; k++) {
        struct span m = { .kind = SPAN_FETCH, .worker = c->member[k].worker, .cell = c->id };

        m.blob = names.n ? notebook_next_blobs(c->nb, 1) : 0;
        m.v[F_FETCH_NAMES].s = buf_slice(&names);
        m.v[F_FETCH_LIMIT].u64 = UINT64_MAX;
        m.v[F_FETCH_FLAGS].u64 = flags;
        if ((rc = cell_send(c, &c->member[k].worker, 1, &m)) == 0)
            member_sent(c, &c->member[k]);
    }
    buf_release(&names);
    return rc;
}

void run_begin(struct cell *c)
{
    const bool fetches = c->plan.kind == PLAN_PULL || c->plan.kind == PLAN_PUSH;

    if (c->plan.kind == PLAN_PULL) /* the values of new ranks are gone */
        note_new(c);
    if ((fetches ? fetch(c) : run(c)) == 0)
        live_begin(c);
}

/* ---- the end ---- */

/* Names the dead ranks that the error does not name. */
static void note_dead(struct cell *c)
{
    struct ranks dead = RANKS_INIT;
    struct buf text = BUF_INIT;

    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_DEAD && !c->member[k].failed_by_itself &&
            ranks_add(&dead, c->member[k].rank) < 0)
            break;
    if (text_ranks(&dead, &text))
        output_note(c,
                    ranks_count(&dead) > 1 ? "ranks %s are dead: their variables are gone"
                                           : "rank %s is dead: its variables are gone",
                    text.p);
    ranks_release(&dead);
    buf_release(&text);
}

enum cell_outcome run_end(struct cell *c)
{
    stop_cancel(c);
    output_flush(c);
    for (size_t k = 0; k < c->n; k++)
        c->bad = c->bad || c->member[k].state > MEMBER_REPLACED;
    live_end(c);
    if (c->bad && !c->fault.shown)
        error_show(c, error_of_cell(c));
    error_note_late(c);
    note_dead(c);
    return CELL_DONE;
}

/* The ranks of a script must end after DONE; SIGTERM is sent once to those that live. true: some
 * live still. */
static bool script_lingers(struct cell *c)
{
    struct ranks left = RANKS_INIT;

    if (!cell_lingers(c))
        return false;
    if (!c->stop.ending) {
        c->stop.ending = true;
        if (ranks_add_range(&left, 0, cell_own_group(c)->size - 1) == 0)
            stop_signal_ranks(c->nb, cell_own_group(c), &left, SIGTERM, STOP_GRACE_MS);
        ranks_release(&left);
        stop_wait_for_killed(c, STOP_GRACE_MS * NS_PER_MS);
    }
    return true;
}

enum cell_outcome run_poll(struct cell *c)
{
    if (cell_unfinished(c)) {
        if (c->bad)
            stop_running(c);
        c->stop.failed_running = c->bad;
        return CELL_STAYS;
    }
    /* a cell that fails after its ranks' DONE does not wait for the script's processes */
    if ((!c->bad || c->stop.failed_running) && script_lingers(c))
        return CELL_STAYS;
    return run_end(c);
}
