/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the group's ranks run: on this machine, or on the nodes of an engine. Starts the engine's
 * run for a cell, handles lost nodes, and ends the run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_runs.h"
#include "kernel/cell/cell_stops.h"
#include "kernel/cell/idle_release.h"

static const char here[] = "local";

/* ---- the end of a run ---- */

bool engine_is_torn(const struct notebook *nb)
{
    return nb->group->on && group_nodes_lost(nb) > 0;
}

bool engine_loses(const struct cell *c)
{
    const struct notebook *nb = c->nb;

    GROUP_NODES_EACH (node, group_nodes_of_cell(c)) {
        const struct node *info = node->lost ? NULL : nb->ops.node(nb->ops.arg, node->number);

        if (info && info->leaving)
            return true;
    }
    return false;
}

/* Forgets the --on that failed: ranks may run where the next cell says, or here. */
static void settle(struct notebook *nb)
{
    free(nb->group->absent);
    nb->group->absent = NULL;
}

/* Ends the engine's run and its ranks. */
static void leave(struct notebook *nb)
{
    struct group *g = nb->group;

    if (g->engine)
        nb->ops.engine_stop(nb->ops.arg, g->engine);
    g->engine = 0;
    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].worker && g->rank[k].node != NODE_HERE) {
            nb->ops.forget(nb->ops.arg, g->rank[k].worker);
            rank_events_gone(nb, &g->rank[k]);
            rank_end(&g->rank[k]);
            group_break(g);
        }
    nb->nodes = 1; /* this machine */
}

static void leave_and_forget(struct notebook *nb)
{
    leave(nb);
    free(nb->group->on);
    free(nb->group->image);
    nb->group->on = nb->group->image = NULL;
}

void engine_end(struct notebook *nb)
{
    leave_and_forget(nb);
    settle(nb);
}

/* The engine did not start. If no cell has run there, the group forgets it, but ranks do not start
 * on this machine instead: the user has not chosen that, so the next cell needs --on. */
static void give_up(struct notebook *nb)
{
    struct group *g = nb->group;

    if (g->asked) {
        leave(nb);
        return;
    }
    settle(nb);
    g->absent = g->on;
    g->on = NULL;
    free(g->image);
    g->image = NULL;
    leave(nb);
}

/* ---- which engine a cell wants ---- */

bool engine_group_lives(const struct group *g)
{
    if (g->engine)
        return true;
    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].worker)
            return true;
    return false;
}

bool engine_exists(struct cell *c, const char *on)
{
    const size_t n = strcspn(on, ":");
    char *name = strndup(on, n);
    struct err err = { "" };
    int rc = name ? 0 : err_set(&err, "out of memory");

    if (rc == 0 && strcmp(name, here) != 0)
        rc = c->nb->ops.engine_find(c->nb->ops.arg, name, &err);
    free(name);
    if (rc < 0)
        cell_fail(c, "EngineError", "%s", err.text);
    return rc == 0;
}

void engine_move(struct cell *c)
{
    c->engine.moves = true;
}

int engine_choose(struct cell *c)
{
    struct group *g = c->nb->group;
    const char *on = c->plan.on;

    if (!on && g->absent)
        return cell_fail(c, "UsageError",
                         "%s did not come up: write --on again (--on local uses this machine)",
                         g->absent);
    if (engine_image_check(c) < 0)
        return -1;
    if ((!on || !engine_is_other(g, on)) && !engine_image_is_other(c))
        return 0;
    if (!on)
        on = g->on;
    if (cell_own_group(c) && strcmp(on, here) == 0) {
        c->engine.here = true;
        return 0;
    }
    if (strncmp(on, "local:", 6) == 0)
        return cell_fail(c, "UsageError",
                         "--on %s: local is this machine, and takes nothing after the colon", on);
    /* a wrong name must not end the ranks that live */
    if (engine_group_lives(g) && !engine_exists(c, on))
        return -1;
    if (engine_group_lives(g) && !c->plan.fresh && !engine_is_other(g, on))
        return engine_image_refuse(c);
    if (engine_group_lives(g) && !c->plan.fresh)
        return cell_fail(c, "UsageError", "--on %s: the ranks are on %s (%s)", on,
                         g->on ? g->on : "this machine",
                         cell_own_group(c) ? "%ranks stop ends them; then run this again"
                                           : "--fresh ends them and starts new ones there");
    engine_move(c);
    /* The number of ranks depends on the new nodes. With --fresh it is reset later, when nothing
     * can refuse the cell any more. */
    if (!c->plan.fresh)
        g->asked = 0;
    return 0;
}

bool engine_is_known(const struct cell *c)
{
    return group_nodes_are_here(c) ||
           (!c->engine.moves && c->nb->group->engine && !engine_is_torn(c->nb));
}

/* -1: the cell has failed. */
static int move_group(struct cell *c)
{
    const char *on = c->plan.on ? c->plan.on : c->nb->group->on, *in = engine_image(c);
    char *copy = NULL, *image = NULL;

    if ((on && strcmp(on, here) != 0 && !(copy = strdup(on))) || (in && !(image = strdup(in)))) {
        free(copy);
        return cell_fail(c, "RuntimeError", "out of memory");
    }
    leave_and_forget(c->nb);
    c->nb->group->on = copy;
    c->nb->group->image = image;
    c->engine.moves = false;
    return 0;
}

/* ---- its start ---- */

/* What the engine is told; 0: the cell does not say. */
static unsigned ranks_of(const struct cell *c)
{
    const bool given = c->plan.n != PLAN_N_UNSET && c->plan.n != PLAN_N_GPU;

    return c->plan.per_node ? 0 : given ? c->plan.n : c->nb->group->asked;
}

/* Ranks of the group that are to stay, or those of another cell. */
static bool some_stay(const struct cell *c)
{
    const struct group *g = c->nb->group;

    CELLS_EACH (other, c->nb)
        if (other != c)
            return true;
    for (unsigned k = 0; k < g->size && !c->plan.fresh; k++)
        if (g->rank[k].worker)
            return true;
    return false;
}

bool engine_grows(struct cell *c)
{
    const struct group *g = c->nb->group;
    unsigned first, n, had = 0;

    if (g->engine && !group_nodes_are_here(c))
        c->nb->ops.engine_nodes(c->nb->ops.arg, g->engine, &first, &n, &had);
    if (!had || ranks_of(c) <= had || some_stay(c))
        return false;
    output_note(c, "%s was started for %u rank%s: it is started again, for %u", g->on, had,
                had == 1 ? "" : "s", ranks_of(c));
    engine_move(c);
    return true;
}

/* What home has changed in its environment since it started. %ranks asks home for nothing, so it
 * starts an engine as the last time. */
static const json_t *home_changes(struct cell *c)
{
    struct group *g = c->nb->group;
    json_t *env = json_object_get(c->prep.captured, "env");

    if (env) {
        json_decref(g->changes);
        g->changes = json_incref(env);
    }
    return g->changes;
}

static int start(struct cell *c, struct err *err)
{
    struct notebook *nb = c->nb;
    struct group *g = nb->group;
    const char *colon = strchr(g->on, ':');
    char *name = strndup(g->on, colon ? (size_t)(colon - g->on) : strlen(g->on));
    int rc;

    if (!name)
        return err_set(err, "out of memory");
    g->up_ns = 0;
    rc = nb->ops.engine_start(nb->ops.arg, name, colon ? colon + 1 : "", g->image, ranks_of(c),
                              home_changes(c), &g->engine, err);
    if (rc < 0) {
        const size_t n = strlen(err->text);

        g->engine = 0;
        if (strcmp(g->on, nb->config.cells.on) == 0)
            snprintf(err->text + n, sizeof err->text - n, "; CELLSPAN_ON names it");
    }
    free(name);
    return rc;
}

static void note_afresh(struct cell *c)
{
    struct buf names = BUF_INIT;
    unsigned lost = 0;

    GROUP_NODES_EACH (node, group_nodes_of(c->nb))
        if (node->lost && buf_addf(&names, "%s%s", lost++ ? ", " : "",
                                   notebook_node_name(c->nb, node->number)) < 0)
            break;
    if (lost && names.n)
        output_note(c, "%s %s lost: %s is started again", names.p, lost > 1 ? "are" : "is",
                    c->nb->group->on);
    buf_release(&names);
}

static bool must_start(const struct cell *c)
{
    return !c->engine.here && c->nb->group->on && !c->nb->group->engine;
}

static void engine_begin(struct cell *c)
{
    struct notebook *nb = c->nb;
    struct group *g = nb->group;

    if (c->engine.here || (c->engine.moves && move_group(c) < 0))
        return;
    if (g->on && nb->nodes > 1 && group_nodes_lost(nb) == nb->nodes - 1) {
        note_afresh(c);
        leave(nb);
    }
    if (must_start(c))
        (void)capture_ask_once(c);
}

static void on_message(struct notebook *nb, const char *text)
{
    struct cell *c = nb->cells;

    if (!c || !output_is_open(c)) {
        log_info("engine", "%s", text);
        return;
    }
    if (c->engine.said && strcmp(c->engine.said, text) == 0)
        return;
    free(c->engine.said);
    c->engine.said = strdup(text);
    output_note(c, "%s", text);
}

/* A machine comes in place of a lost one, and is not up yet. */
static bool is_one_coming(const struct notebook *nb)
{
    GROUP_NODES_EACH (node, group_nodes_of(nb)) {
        const struct node *info = node->lost ? NULL : nb->ops.node(nb->ops.arg, node->number);

        if (info && info->state == NODE_ASKED)
            return true;
    }
    return false;
}

/* Ranks of a lost machine start on the one that comes in its place. */
static bool waits_for_another(struct cell *c)
{
    if (c->engine.waits == CELL_WAITS_FOR_NODES || c->engine.here || c->from.overlaps ||
        !c->nb->group->on || !is_one_coming(c->nb))
        return false;
    on_message(c->nb, "another machine comes in place of a lost one: the cell waits for it");
    return true;
}

/* ---- a machine that acknowledges nothing ---- */

/* The first node of those that the cell needs to which no more may be sent now. NULL: none. */
static const struct node *full_node(const struct cell *c)
{
    const struct group *g = c->nb->group;
    const struct node *full = NULL;
    struct ranks which = RANKS_INIT;
    struct err err;

    if (c->plan.ranks && g->asked && !cell_own_group(c) &&
        cell_parse_ranks(c, g->asked, &which, &err) == 0) {
        RANKS_EACH (k, &which)
            if (!full && k < g->size)
                full = notebook_full_node(c->nb, g->rank[k].node);
    } else {
        GROUP_NODES_EACH (node, group_nodes_of_cell(c))
            if (!full && !node->lost)
                full = notebook_full_node(c->nb, node->number);
    }
    ranks_release(&which);
    return full;
}

/* Ranks that are ending have their GPUs still, which the cell's ranks may need. */
static bool waits_for_ends(struct cell *c)
{
    const bool holds = idle_release_holds(c->nb);

    if (holds && c->engine.waits != CELL_WAITS_FOR_ENDS) {
        c->engine.waits = CELL_WAITS_FOR_ENDS;
        stop_wait_for_killed(c, STOP_GRACE_MS * NS_PER_MS);
    } else if (!holds && c->engine.waits == CELL_WAITS_FOR_ENDS) {
        c->engine.waits = CELL_WAITS_NOT;
        stop_wait_for_killed_cancel(c);
    }
    return holds;
}

/* Ranks that were idle have left their GPUs, or are leaving them. */
static bool waits_for_parked(struct cell *c)
{
    const bool waits = c->engine.waits == CELL_WAITS_FOR_PARKED;
    const bool more = idle_release_brings_back(c, waits);

    if (more || waits)
        c->engine.waits = more ? CELL_WAITS_FOR_PARKED : CELL_WAITS_NOT;
    return more;
}

/* What a cell sends is kept until its nodes acknowledge it, so while much is kept for one of them,
 * as when its connection is interrupted, no cell begins there. */
static bool waits_for_room(struct cell *c)
{
    const struct node *full = full_node(c);

    if (!full) {
        c->engine.waits = CELL_WAITS_NOT;
        return false;
    }
    if (c->engine.waits != CELL_WAITS_FOR_ROOM)
        output_note(c, "%s is slow to take what was sent to it: the cell waits for it", full->name);
    c->engine.waits = CELL_WAITS_FOR_ROOM;
    cell_limit_step(c, notebook_now(c->nb) + NOTEBOOK_ROOM_NS);
    return true;
}

static void engine_timed_out(struct cell *c)
{
    if (c->engine.errors)
        node_errors_fail(c);
}

/* ---- the step ---- */

/* The engine gets home's environment. false: home has not answered, or the cell has failed. */
static bool start_when_told(struct cell *c)
{
    struct err err = { "" };

    if (c->prep.wants_capture)
        return false;
    c->engine.waits = CELL_WAITS_FOR_NODES;
    if (start(c, &err) == 0)
        return true;
    cell_fail(c, "EngineError", "%s", err.text);
    return false;
}

/* 1: all nodes are up; 0: not yet; -1: the cell has failed. */
static int add_nodes(struct cell *c)
{
    struct notebook *nb = c->nb;
    unsigned first = 0, n = 0, ranks;

    nb->ops.engine_nodes(nb->ops.arg, nb->group->engine, &first, &n, &ranks);
    if (n && group_nodes_add(nb, first, n) < 0)
        return cell_fail(c, "RuntimeError", "out of memory");
    for (unsigned k = 0; k < n; k++) {
        const struct node *info = nb->ops.node(nb->ops.arg, first + k);

        if (!info || info->state != NODE_UP)
            return 0;
    }
    return n > 0;
}

static enum cell_outcome engine_poll(struct cell *c)
{
    if (must_start(c) && !start_when_told(c))
        return CELL_STAYS;
    if (waits_for_another(c))
        return CELL_STAYS;
    if (c->engine.waits == CELL_WAITS_FOR_NODES) {
        if (c->engine.errors) {
            node_errors_poll(c);
            return CELL_STAYS;
        }
        if (add_nodes(c) <= 0)
            return CELL_STAYS;
        c->engine.waits = CELL_WAITS_NOT;
        c->nb->group->up_ns = notebook_now(c->nb);
        output_flush(c); /* the engine's messages are shown before the ranks' output */
    }
    if (waits_for_ends(c) || waits_for_parked(c) || waits_for_room(c))
        return CELL_STAYS;
    if (!c->engine.here)
        settle(c->nb);
    away_nodes_begin(c);
    return CELL_DONE;
}

static void engine_fail(struct cell *c)
{
    gpu_wait_leave(c);
    if (c->engine.waits == CELL_WAITS_FOR_NODES)
        give_up(c->nb);
}

/* ---- events of the engine ---- */

/* Removes the host's name from the texts of engines ("HOST: …") and agents ("cellspan-agent on
 * HOST"), since the error names the host already. Borrowed from why or out. If memory is out: why
 * itself. */
static const char *without_name(const char *why, const char *name, struct buf *out)
{
    static const char agent[] = "cellspan-agent on ";
    const size_t n = strlen(name);
    const char *at;

    if (strncmp(why, name, n) == 0 && strncmp(why + n, ": ", 2) == 0)
        why += n + 2;
    at = strstr(why, agent);
    if (!at || strncmp(at + sizeof agent - 1, name, n) != 0 ||
        !strchr(": ", at[sizeof agent - 1 + n]))
        return why;
    if (buf_addf(out, "%.*scellspan-agent%s", (int)(at - why), why, at + sizeof agent - 1 + n) < 0)
        return why;
    return out->p;
}

static void lose_node(struct notebook *nb, struct group_node *node, const char *why)
{
    node->lost = true;
    node->asked = false;
    snprintf(node->why, sizeof node->why, "%s", why);
    rank_events_lost(nb, node->number, why);
}

void engine_lost(struct notebook *nb, unsigned node, const char *why)
{
    const struct node *info = nb->ops.node(nb->ops.arg, node);
    const char *name = notebook_node_name(nb, node);
    struct group_node *of_group = group_node_of(nb, node);
    struct cell *c = nb->cells; /* while one waits for nodes, no other runs */
    struct buf text = BUF_INIT;

    why = without_name(why, name, &text);
    if (c && c->engine.waits == CELL_WAITS_FOR_NODES && info && info->engine &&
        info->engine == nb->group->engine)
        node_errors_add(c, node, name, why);
    else if (of_group)
        lose_node(nb, of_group, why);
    buf_release(&text);
}

/* The new machine takes the old one's place in the group, and the ranks of that one start on it. */
void engine_replaced(struct notebook *nb, unsigned node, unsigned by)
{
    struct group_node *at = group_node_of(nb, node);
    struct group *g = nb->group;

    if (!at || !at->lost)
        return;
    log_info("engine", "node %u comes in place of node %u", by, node);
    *at = (struct group_node){ .number = by };
    for (unsigned k = 0; k < g->size; k++)
        if (!rank_alive(&g->rank[k]) && g->rank[k].node == node)
            g->rank[k].node = by;
}

/* The engine has failed, and all its nodes are lost for this reason. A cell that runs on none of
 * their ranks goes on. */
static void on_failed(struct notebook *nb, const char *text)
{
    struct cell *c = nb->cells;

    nb->group->engine = 0; /* it has ended already, and need not be stopped */
    if (c && c->engine.waits == CELL_WAITS_FOR_NODES && !c->bad) {
        if (c->engine.errors)
            node_errors_fail(c);
        else
            cell_fail(c, "EngineError", "%s", text);
        return;
    }
    GROUP_NODES_EACH (node, group_nodes_of(nb))
        if (!node->lost)
            engine_lost(nb, node->number, text);
}

void engine_event(struct notebook *nb, unsigned engine, enum engine_event event, const char *text)
{
    if (engine != nb->group->engine || !nb->group->engine)
        return;
    if (event == ENGINE_SAYS)
        on_message(nb, text);
    else if (event == ENGINE_FAILED)
        on_failed(nb, text);
}

const struct cell_step cell_engine = { CELL_BEFORE, .begin = engine_begin, .poll = engine_poll,
                                       .fail = engine_fail, .timed_out = engine_timed_out };
