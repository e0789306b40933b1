/* SPDX-License-Identifier: BSD-3-Clause */
/* How a rank ends its work in a cell: it sends DONE, its process ends, or its node is lost. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_runs.h"
#include "kernel/cell/cell_stops.h"
#include "kernel/cell/error_text.h"
#include "kernel/cell/prompts.h"
#include "kernel/notebook/debugger.h"

static void member_over(struct cell *c, struct member *member)
{
    prompts_drop_worker(c->nb, member->worker);
    output_rank_over(c, member->rank);
    if (member->state == MEMBER_FAILED || member->state == MEMBER_DEAD)
        stop_after_failure(c);
}

/* A KeyboardInterrupt without an interrupt of the kernel, raised by the code or sent from outside,
 * counts as any other exception. */
static enum member_state state_of(const struct cell *c, const struct span *m)
{
    if (slice_is(m->v[F_DONE_STATUS].s, "ok"))
        return MEMBER_OK;
    if (m->v[F_DONE_FLAGS].u64 & DONE_OWN_ERROR)
        return MEMBER_FAILED;
    return c->stop.stopping ? MEMBER_INTERRUPTED : MEMBER_FAILED;
}

static void keep_result(const struct cell *c, struct member *member, const struct span *m)
{
    const struct slice note = m->v[F_DONE_NOTE].s, value = m->v[F_DONE_VALUE].s;

    member->error = slice_is(m->v[F_DONE_STATUS].s, "ok") ? NULL
                                                          : text_parse(m->v[F_DONE_CONTENT].s);
    member->result = m->v[F_DONE_RESULT].s.n ? text_parse(m->v[F_DONE_RESULT].s) : NULL;
    member->note = note.n ? slice_copy(note) : NULL;
    member->value = value.n && cell_is_function(c) ? slice_copy(value) : NULL;
    member->value_size = member->value ? value.n : 0;
    member->blob = m->blob_size ? m->blob : 0;
    member->blob_size = m->blob_size;
}

/* For names that the rank has bound, its values are newer now than home's. */
static void note_bound(struct cell *c, struct rank *r, const struct span *m)
{
    const struct slice names = m->v[F_DONE_ASSIGNED].s;
    const bool well = slice_is(m->v[F_DONE_STATUS].s, "ok");
    struct span newer = { .kind = SPAN_NEWER, .worker = SPAN_WORKER_HOME, .cell = c->id };
    struct buf unknown = BUF_INIT;

    if ((well && ledger_ended_well(r, c->prep.captured) < 0) ||
        ledger_bound(c->group, r, c->prep.captured, names, &unknown) < 0)
        log_warn("ranks", "out of memory: home's value may go over what rank %u has assigned",
                 r->number);
    newer.v[F_NEWER_NAMES].s = buf_slice(&unknown);
    if (unknown.n)
        notebook_send(c->nb, SPAN_WORKER_HOME, &newer);
    buf_release(&unknown);
}

void rank_events_on_done(struct notebook *nb, struct rank *r, const struct span *m)
{
    struct cell *c = cell_find(nb, m->cell);
    struct member *member = c ? cell_worker(c, r->worker) : NULL;

    if (r->state == RANK_BUSY)
        r->state = RANK_IDLE;
    rank_answered(r, m->v[F_DONE_FLAGS].u64 & DONE_UNBOUND, m->v[F_DONE_GONE].s,
                  m->v[F_DONE_ASSIGNED].s);
    if (c && !cell_own_group(c)) /* else the values end with the rank */
        note_bound(c, r, m);
    if ((m->v[F_DONE_FLAGS].u64 & DONE_UNBOUND) && c)
        broadcast_failed(c, m);
    if (m->v[F_DONE_FLAGS].u64 & DONE_ABORTED)
        group_break(c ? c->group : nb->group);
    if (!member || member->state != MEMBER_RUNNING) {
        notebook_drop(nb, m->blob_size ? m->blob : 0);
        return;
    }
    keep_result(c, member, m);
    if ((m->v[F_DONE_FLAGS].u64 & DONE_DISTRIBUTED) && group_set_initialised(c->group) < 0)
        log_warn("ranks", "out of memory: the process group of a world of %u is made anew",
                 c->world);
    member->state = state_of(c, m);
    member->failed_by_itself = member->state == MEMBER_FAILED;
    member_over(c, member);
}

/* ---- deaths ---- */

static void note_idle_death(struct notebook *nb, const struct rank *r, const struct span *m)
{
    json_t *death = error_of_death(nb, r, m);
    struct buf line = BUF_INIT;

    if (death && buf_addf(&line, "cellspan: %s (no cell was running on it)\n",
                          json_string_value(json_object_get(death, "evalue"))) == 0)
        publish_stream(nb, nb->rank_parent, 2, buf_slice(&line));
    buf_release(&line);
    json_decref(death);
}

/* A rank of a call that outlives ranks has died. Do the others go on, and do its work? */
static bool is_outlived(struct cell *c)
{
    size_t well = 0, dead = 0;

    if (c->bad || c->stop.stopping || c->stop.decided)
        return false;
    for (size_t k = 0; k < c->n; k++) {
        well += c->member[k].state == MEMBER_RUNNING || c->member[k].state == MEMBER_OK;
        dead += c->member[k].state == MEMBER_REPLACED;
    }
    for (size_t k = 0; k < c->n && dead == c->n; k++) { /* the error names all of them */
        c->member[k].state = MEMBER_DEAD;
        c->member[k].failed_by_itself = true;
    }
    return well && well + dead == c->n;
}

static void member_died(struct cell *c, struct member *member, const struct span *m)
{
    const bool call = c->from.is_call && c->from.call_flags & CALL_OUTLIVES && cell_runs(c);

    json_decref(member->error);
    member->error = error_of_death(c->nb, &c->group->rank[member->rank], m);
    member->failed_by_itself = !c->stop.stopping;
    member->state = MEMBER_REPLACED;
    if (call && !c->stop.stopping)
        exchange_rank_died(c, member->rank, text_slice(member->error, "evalue"));
    if (call && is_outlived(c)) {
        member->failed_by_itself = false;
        output_note(c, "%s: other ranks do its work", text_field(member->error, "evalue"));
    } else {
        member->state = MEMBER_DEAD;
    }
    member_over(c, member);
}

/* The process ended before it was a rank. An earlier cell had started it, and perhaps the user has
 * mended since what was wrong, so this cell may start it once itself. */
static bool is_left_over(const struct cell *c, const struct rank *r, const struct span *m)
{
    return !c->bad && r->starter != c->id && m->v[F_EXITED_CODE].u64 != EXITED_UNKNOWN;
}

/* The version of a Python that could not start, as it has said itself (worker's __main__.py);
 * empty: it has not. */
static struct slice python_of(struct slice said)
{
    static const char begin[] = "cellspan: this is Python ";

    while (said.n) {
        const struct slice line = slice_line(&said);

        if (slice_begins(line, begin))
            return slice_of(line.p + strlen(begin), line.n - strlen(begin));
    }
    return slice_of("", 0);
}

/* A rank has died on which the cell was to run. */
static void died_before(struct cell *c, const struct rank *r, bool starting, const struct span *m)
{
    json_t *death = error_of_death(c->nb, r, m);
    const struct slice last = m->v[F_EXITED_STDERR].s;
    const char *text = text_field(death, "evalue");

    if (starting && is_left_over(c, r, m))
        c->prep.left_over++;
    else if (starting && node_errors_python(c, r, python_of(last)))
        ; /* what it lacks does not matter: it would be of no use with it */
    else if (starting)
        cell_fail(c, "RankNotStarted", "%s%s%.*s", text, last.n ? "\n" : "", SLICE_ARG(last));
    else if (c->bad) /* for example because of another rank */
        output_note(c, "%s (no cell was running on it)", text);
    else
        cell_fail(c, death ? text_field(death, "ename") : "RankDied",
                  "%s, before the cell could run", text);
    json_decref(death);
}

static void close_widgets(struct notebook *nb, const struct rank *r)
{
    struct cell *c = cell_on(nb, r->worker);
    const struct cell *under = c ? c : nb->cells; /* such as %ranks stop */
    const bool shown = under && under->from.request;
    char why[64];
    size_t n;

    snprintf(why, sizeof why, "rank %u has ended", r->number);
    if (c)
        output_show_held(c); /* what becomes text must be shown */
    n = comm_output_gone(nb, r->worker, shown ? under->from.request : nb->rank_parent, why);
    comm_routes_gone(nb, r->worker);
    if (n && c && c->group == nb->group)
        output_note(c, "the widgets of rank %u are closed: it has ended", r->number);
}

void rank_events_gone(struct notebook *nb, const struct rank *r)
{
    finds_leave(nb, r->worker);
    close_widgets(nb, r);
    stop_put_off(nb, debugger_gone(nb, r->worker));
}

void rank_events_on_exited(struct notebook *nb, uint32_t worker, const struct span *m)
{
    struct group *g;
    struct rank *r = notebook_rank(nb, worker, &g);
    struct cell *c = cell_on(nb, worker);
    struct member *member = c ? cell_worker(c, worker) : NULL;
    /* a rank that has answered one step of %ranks check takes part in the next */
    const bool runs = member && (member->state == MEMBER_RUNNING ||
                                 (cell_runs(c) && c->magic.check && member->state == MEMBER_OK));
    const bool needed = member && c->now.step->phase == CELL_BEFORE && !c->now.step->ends_ranks;
    enum rank_state was;

    if (!r) /* rank_events_gone() was called when its cell ended */
        return;
    was = r->state;
    if (runs)
        group_break_in(g, "lost a rank", c->from.count);
    else
        group_break(g);
    rank_events_gone(nb, r);
    if (!runs && was == RANK_IDLE && g == nb->group && (!needed || (c->bad && !cell_is_shown(c))))
        note_idle_death(nb, r, m);
    rank_end(r);
    if (runs)
        member_died(c, member, m);
    else if (needed)
        died_before(c, r, was == RANK_STARTING, m);
}

/* ---- lost nodes ---- */

static void ranks_lost(struct notebook *nb, const struct group *g, unsigned node, struct span *gone)
{
    for (unsigned k = 0; k < g->size; k++) {
        const uint32_t worker = g->rank[k].worker;

        gone->v[F_EXITED_PID].u64 = (uint64_t)g->rank[k].pid;
        if (worker && g->rank[k].node == node)
            rank_events_on_exited(nb, worker, gone);
    }
}

void rank_events_lost(struct notebook *nb, unsigned node, const char *why)
{
    struct span gone = { .kind = SPAN_EXITED, .v[F_EXITED_CODE].u64 = EXITED_UNKNOWN };
    struct buf cause = BUF_INIT;

    /* a launcher's last lines, of which the last one says most */
    if (buf_addf(&cause, "is gone: %s", why) == 0)
        text_trim(cause.p);
    gone.v[F_EXITED_CAUSE].s = slice_text(cause.n ? cause.p : "is gone");
    ranks_lost(nb, nb->group, node, &gone);
    if (nb->script_group)
        ranks_lost(nb, nb->script_group, node, &gone);
    buf_release(&cause);
}

/* ---- ranks that do not end although they were killed ---- */

static bool is_stuck(struct cell *c, const struct rank *r)
{
    const struct member *member = cell_worker(c, r->worker);

    return r->state == RANK_STOPPING || (cell_runs(c) && member && member->state == MEMBER_RUNNING);
}

/* A driver or a file system can hold a killed process for any time. Nobody waits for it any more:
 * it counts as ended. */
static void give_up(struct cell *c)
{
    struct span gone = { .kind = SPAN_EXITED, .v[F_EXITED_CODE].u64 = EXITED_UNKNOWN };
    struct group *g = cell_runs(c) ? c->group : c->nb->group;

    stop_wait_for_killed_cancel(c);
    away_nodes_give_up(c);
    gone.v[F_EXITED_CAUSE].s = slice_text("is gone: it did not end when it was killed");
    for (unsigned k = 0; k < g->size; k++) {
        const uint32_t worker = g->rank[k].worker;

        if (!worker || !is_stuck(c, &g->rank[k]) || away_node_is(c->nb, g->rank[k].node))
            continue;
        output_note(
            c,
            "rank %u (pid %ld on %s) did not end %u s after it was killed, and is left behind: a driver or a "
            "file system holds it",
            k, g->rank[k].pid, notebook_node_name(c->nb, g->rank[k].node),
            (unsigned)(LEFT_BEHIND_NS / NS_PER_S));
        gone.v[F_EXITED_PID].u64 = (uint64_t)g->rank[k].pid;
        c->nb->ops.forget(c->nb->ops.arg, worker);
        rank_events_on_exited(c->nb, worker, &gone);
    }
}

void rank_events_away_changed(struct notebook *nb, unsigned node)
{
    if (nb->shutdown_asked)
        return;
    away_nodes_changed(nb, node);
    CELLS_EACH (c, nb)
        if (output_is_open(c) && away_node_is(nb, node) && stop_wait_for_killed_due(c) != NEVER)
            away_nodes_give_up(c);
}

void rank_events_tick(struct cell *c, uint64_t now)
{
    if (now >= stop_wait_for_killed_due(c))
        give_up(c);
}
