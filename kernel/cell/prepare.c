/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepares a cell: its ranks, the variables that it reads from home, and a port for its world. All
 * three are asked for at once. */
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/live_status.h"

/* ---- what settings say where the cell does not ---- */

/* The group's ranks are nowhere yet, or were stopped, and no place has been chosen for them. */
static int default_place(struct cell *c)
{
    const struct group *g = c->nb->group;
    const char *on = c->nb->config.cells.on;
    struct err err = { "" };

    if (c->plan.on || !on || !*on || g->on || g->absent || g->asked || engine_group_lives(g) ||
        plan_set_on(&c->plan, "CELLSPAN_ON", on, &err) == 0)
        return 0;
    return cell_fail(c, "UsageError", "%s", err.text);
}

/* The group has no size yet, or gets another one. */
static void default_number(struct cell *c)
{
    const bool anew = !c->nb->group->asked || c->engine.here || (c->plan.fresh && c->engine.moves);

    if (anew && c->plan.n == PLAN_N_UNSET && !c->plan.per_node)
        c->plan.n = c->nb->config.cells.n;
}

/* ---- checks before anything is started or stopped ---- */

static int refuse(struct cell *c)
{
    const unsigned n = c->plan.per_node            ? 0 /* it depends on the number of nodes */
                       : c->plan.n != PLAN_N_UNSET ? c->plan.n
                                                   : c->nb->group->asked;
    struct ranks which = RANKS_INIT;
    struct err err = { "" };
    int rc = 0;

    if (c->plan.with && !c->nb->config.code)
        rc = err_set(&err, "--with %s: CELLSPAN_CODE=never keeps files here: leave one of them out",
                     c->plan.with[0]);
    else if (c->plan.kind == PLAN_PULL && c->nb->group->asked == 0)
        rc = err_set(&err, "%%pull: " NO_RANKS_YET);
    else if (n && n <= GROUP_MAX && c->plan.ranks)
        rc = cell_parse_ranks(c, n, &which, &err);
    ranks_release(&which);
    if (rc < 0)
        cell_fail(c, "UsageError", "%s", err.text);
    if (rc < 0 || default_place(c) < 0 || engine_choose(c) < 0)
        return -1;
    default_number(c);
    return 0;
}

/* %ranks check and %ranks restart take the world as it is. */
static void refuse_without_world(struct cell *c)
{
    const bool checks = c->plan.ranks_do == PLAN_RANKS_CHECK;
    struct ranks which = RANKS_INIT;
    struct err err = { "" };

    if (!c->world)
        cell_fail(c, "UsageError", "%%ranks %s: " NO_RANKS_YET,
                  ranks_command_name(c->plan.ranks_do));
    else if (checks && c->plan.ranks && ranks_parse(&which, c->plan.ranks, c->world, &err) < 0)
        cell_fail(c, "UsageError", "%s", err.text);
    ranks_release(&which);
}

static void prepare_choose_begin(struct cell *c)
{
    live_open(c);
    if (c->plan.kind == PLAN_RANKS)
        c->world = c->nb->group->asked;
    if (c->plan.kind != PLAN_RANKS)
        (void)refuse(c);
    else if (c->plan.ranks_do != PLAN_RANKS_STOP)
        refuse_without_world(c);
}

/* --fresh: all ranks will end, so the number of ranks and the engine may change. */
static void reset_for_fresh(struct cell *c)
{
    if (c->engine.moves || c->plan.n != PLAN_N_UNSET || c->plan.per_node)
        c->nb->group->asked = 0;
    if (engine_is_torn(c->nb))
        engine_move(c);
}

static bool is_stop(const struct cell *c)
{
    return c->plan.kind == PLAN_RANKS && c->plan.ranks_do == PLAN_RANKS_STOP;
}

static enum cell_outcome prepare_choose_poll(struct cell *c)
{
    if (!is_stop(c) && engine_loses(c)) /* what it sent there would not arrive */
        return CELL_STAYS;
    if (c->plan.kind == PLAN_RANKS)
        return c->plan.ranks_do == PLAN_RANKS_CHECK ? CELL_DONE : CELL_ENDS_RANKS;
    if (!c->plan.fresh)
        return CELL_DONE;
    if (engine_group_lives(c->nb->group))
        return CELL_ASKS_FIRST;
    reset_for_fresh(c);
    return CELL_ENDS_RANKS;
}

static void prepare_ask_begin(struct cell *c)
{
    if (capture_ask(c, true) == 0)
        start_try_begin(c);
}

static enum cell_outcome prepare_ask_poll(struct cell *c)
{
    if (c->prep.wants_capture || !start_try_poll(c) || c->bad)
        return CELL_STAYS;
    reset_for_fresh(c);
    return CELL_DONE;
}

/* ---- ranks, variables and a port ---- */

static void prepare_begin(struct cell *c)
{
    if (capture_ask_once(c) < 0)
        return;
    if (gpu_memory_begin(c) == 0)
        start_begin(c);
}

static bool is_starting(const struct cell *c, const struct member *m)
{
    return c->group->rank[m->rank].state == RANK_STARTING;
}

static enum cell_outcome prepare_poll(struct cell *c)
{
    if (!start_poll(c))
        return CELL_ENDS_RANKS;
    if (c->bad || c->prep.wants_gpus || c->prep.wants_capture || c->prep.wants_port ||
        cell_some_member(c, is_starting) || !gpu_memory_poll(c))
        return CELL_STAYS;
    if (c->plan.kind == PLAN_RANKS)
        return c->plan.ranks_do == PLAN_RANKS_CHECK ? CELL_IS_CHECK : CELL_IS_OVER;
    if (follow_tell(c) < 0)
        return CELL_STAYS;
    return CELL_DONE;
}

/* ---- PACK ---- */

static int ask_pack(struct cell *c, const struct vars_bundle *s)
{
    struct span m = { .kind = SPAN_PACK,
                      .worker = SPAN_WORKER_HOME,
                      .cell = c->id,
                      .blob = notebook_next_blobs(c->nb, 1) };

    m.v[F_PACK_NAMES].s = slice_text(s->names);
    return cell_send_home(c, &m);
}

static void prepare_send_begin(struct cell *c)
{
    struct err err = { "" };

    capture_note(c);
    if (vars_plan_bundles(c->group, &c->to, c->prep.captured, &c->send.bundles, &err) < 0) {
        cell_fail(c, "RuntimeError", "%s", err.text);
        return;
    }
    for (size_t k = 0; k < c->send.bundles.n; k++)
        if (ask_pack(c, &c->send.bundles.item[k]) < 0)
            return;
}

static enum cell_outcome prepare_send_poll(struct cell *c)
{
    return c->send.bundles.sent == c->send.bundles.n ? CELL_DONE : CELL_STAYS;
}

/* ---- answers ---- */

static void on_packed(struct cell *c, const struct span *m)
{
    if (c->send.bundles.sent == c->send.bundles.n) { /* nothing is waited for */
        notebook_drop(c->nb, m->blob_size ? m->blob : 0);
        return;
    }
    if (m->v[F_PACKED_ERROR].s.n) {
        capture_fail(c, m->v[F_PACKED_ERROR].s);
        return;
    }
    broadcast_packed(c, m);
}

void prepare_on_message(struct cell *c, unsigned node, const struct span *m)
{
    if (m->cell != c->id)
        return;
    if (m->kind == SPAN_CAPTURED && c->prep.wants_capture) {
        capture_take(c, m->v[F_CAPTURED_NAMES].s, m->v[F_CAPTURED_WARNINGS].s);
    } else if (m->kind == SPAN_PACKED) {
        on_packed(c, m);
    } else if (m->kind == SPAN_PORT) {
        start_on_port(c, node, m);
    }
}

const struct cell_step cell_choosing = { CELL_BEFORE, .begin = prepare_choose_begin,
                                         .poll = prepare_choose_poll };

const struct cell_step cell_asking = { CELL_BEFORE, .begin = prepare_ask_begin,
                                       .poll = prepare_ask_poll, .timed_out = start_timed_out,
                                       .fail = gpu_wait_leave };

const struct cell_step cell_starting = { CELL_BEFORE,
                                         .begin = prepare_begin,
                                         .poll = prepare_poll,
                                         .timed_out = start_timed_out,
                                         .fail = gpu_wait_leave,
                                         .probed = gpu_memory_on_probed,
                                         .ready = start_on_ready };

const struct cell_step cell_sending = { CELL_BEFORE, .begin = prepare_send_begin,
                                        .poll = prepare_send_poll, .timed_out = broadcast_timed_out,
                                        .probed = broadcast_on_probed };
