/* SPDX-License-Identifier: BSD-3-Clause */
/* Stops the ranks of a cell after a failure, an interrupt or a time-out.
 *
 * After the first failure of a rank the cell waits a moment, since other ranks may fail with the
 * same error. Then the error is shown, and ranks that still run are interrupted. If the kernel
 * itself fails the cell, as after a time-out, run_poll() of run_cell.c has them interrupted at
 * once. SIGINT does not end a wait in a collective; so after another moment the connections between
 * ranks are cut, which ends gloo's waits. Ranks that still run after the grace time are asked for
 * their stacks, and killed. */
#include <stdlib.h>
#include <string.h>

#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_runs.h"
#include "kernel/cell/cell_stops.h"
#include "kernel/cell/error_text.h"
#include "kernel/cell/prompts.h"

#define ALIKE_NS     (200 * NS_PER_MS) /* the wait after each failure for others like it */
#define ALIKE_MAX_NS (800 * NS_PER_MS) /* the longest wait in all */
#define CUT_NS       (200 * NS_PER_MS) /* from SIGINT to the cut, after a failure */
/* the same after the user's interrupt: no rank has failed, so SIGINT is more likely to be enough */
#define INTERRUPT_CUT_NS (1 * NS_PER_S)
/* a second interrupt kills the ranks; an earlier one is a double click and is ignored */
#define SECOND_INTERRUPT_NS (1 * NS_PER_S)
#define STACKS_NS           (1500 * NS_PER_MS) /* time limit for stacks to arrive */
/* added to the grace time for ranks that are formatting a traceback */
#define TRACEBACK_NS (10 * NS_PER_S)
/* from the signal to SIGKILL, for a script; torchrun waits as long */
#define SIGNAL_GRACE_MS 30000

/* Times that are due: NEVER if nothing is. */
struct stop_timers {
    uint64_t alike_ns, alike_limit_ns; /* when the error is shown; at the latest */
    uint64_t cut_ns;                   /* when connections between ranks are cut */
    uint64_t stacks_ns, kill_ns;       /* when stacks are asked for; when ranks are killed */
    uint64_t timeout_ns;               /* when --timeout ends the cell */
    uint64_t gone_ns;                  /* killed processes that live longer are left behind */
    /* Past moments: since when it waits for callbacks of widgets on its ranks, NEVER: it does not;
     * when the user's first interrupt came */
    uint64_t callbacks_ns, interrupted_ns;
    bool listed;     /* the ranks that hang were named */
    bool more_given; /* ranks that were formatting a traceback got more time */
};

/* What the cell says, else what the setting says, but not above the site's maximum; 0: nothing. */
static uint64_t within(uint64_t said_ns, uint64_t setting_ns, uint64_t most_ns)
{
    const uint64_t ns = said_ns ? said_ns : setting_ns;

    return most_ns && ns > most_ns ? most_ns : ns;
}

static uint64_t grace(const struct cell *c)
{
    const struct plan_defaults *d = &c->nb->config.cells;

    return within(c->plan.grace_ns, d->grace_ns, d->grace_most_ns);
}

static uint64_t timeout(const struct cell *c)
{
    const struct plan_defaults *d = &c->nb->config.cells;
    const bool runs = c->plan.kind == PLAN_DISTRIBUTE || c->plan.kind == PLAN_SCRIPT;

    return within(c->plan.timeout_ns, runs ? d->timeout_ns : 0, runs ? d->timeout_most_ns : 0);
}

int stop_init(struct cell *c)
{
    struct stop_timers *t = c->stop.timers = calloc(1, sizeof *t);

    if (!t)
        return -1;
    t->alike_ns = t->alike_limit_ns = t->cut_ns = t->stacks_ns = t->kill_ns = t->timeout_ns =
        t->gone_ns = t->callbacks_ns = NEVER;
    return 0;
}

void stop_release(struct cell *c)
{
    free(c->stop.timers);
    c->stop.timers = NULL;
}

void stop_set_timeout(struct cell *c)
{
    const uint64_t ns = timeout(c);

    if (ns)
        c->stop.timers->timeout_ns = notebook_now(c->nb) + ns;
}

void stop_tell_maxima(struct cell *c)
{
    const struct plan_defaults *d = &c->nb->config.cells;

    if (d->timeout_most_ns && c->plan.timeout_ns > d->timeout_most_ns)
        output_note(c, "--timeout: %.4g s is used, the most that /etc/cellspan.toml allows",
                    (double)d->timeout_most_ns / 1e9);
    if (d->grace_most_ns && c->plan.grace_ns > d->grace_most_ns)
        output_note(c, "--grace: %.4g s is used, the most that /etc/cellspan.toml allows",
                    (double)d->grace_most_ns / 1e9);
}

static void interrupt_running(struct cell *c, uint64_t cut_after)
{
    const struct span m = { .kind = SPAN_INTERRUPT, .cell = c->id };
    const uint64_t now = notebook_now(c->nb);

    c->stop.stopping = true;
    prompts_drop_cell(c);
    cell_send_running(c, &m);
    exchange_interrupt(c);
    c->stop.timers->cut_ns = now + cut_after;
    c->stop.timers->stacks_ns = now + grace(c);
}

void stop_wait_for_killed(struct cell *c, uint64_t after_ns)
{
    c->stop.timers->gone_ns = notebook_now(c->nb) + after_ns + LEFT_BEHIND_NS;
}

uint64_t stop_wait_for_killed_due(const struct cell *c)
{
    return c->stop.timers->gone_ns;
}

void stop_wait_for_killed_cancel(struct cell *c)
{
    c->stop.timers->gone_ns = NEVER;
}

void stop_signal_ranks(struct notebook *nb, struct group *g, const struct ranks *which,
                       unsigned signal, uint64_t grace_ms)
{
    const struct span m = { .kind = SPAN_KILL,
                            .v[F_KILL_SIGNAL].u64 = signal,
                            .v[F_KILL_GRACE_MS].u64 = grace_ms };

    (void)notebook_send_ranks(nb, g, rank_in_set, which, &m, NULL);
    RANKS_EACH (k, which)
        if (g->rank[k].worker)
            g->rank[k].state = RANK_STOPPING;
    group_break(g);
}

static void kill_running(struct cell *c)
{
    const struct span m = { .kind = SPAN_KILL, .cell = c->id, .v[F_KILL_SIGNAL].u64 = 9 };

    c->stop.timers->cut_ns = c->stop.timers->stacks_ns = c->stop.timers->kill_ns = NEVER;
    cut_ranks_cancel(c);
    cell_send_running(c, &m);
    exchange_interrupt(c);
    stop_wait_for_killed(c, 0);
    away_nodes_give_up(c);
}

static void ask_stacks(struct cell *c)
{
    const struct span m = { .kind = SPAN_STACKS, .cell = c->id };

    c->stop.timers->stacks_ns = NEVER;
    c->stop.timers->kill_ns = notebook_now(c->nb) + STACKS_NS;
    cell_send_running(c, &m);
}

/* The rank handles the interrupt already and formats the traceback: see _show_one() of shell.py,
 * which has a time limit of its own. */
static bool is_formatting(const struct member *m)
{
    return m->state == MEMBER_RUNNING && m->stack &&
           strstr(error_main_thread(m->stack), " in _show_one\n");
}

/* Gives the ranks more time, once, if one of them is formatting its traceback. true: it does. */
static bool give_more_time(struct cell *c)
{
    for (size_t k = 0; k < c->n && !c->stop.timers->more_given; k++)
        c->stop.timers->more_given = is_formatting(&c->member[k]);
    if (!c->stop.timers->more_given)
        return false;
    for (size_t k = 0; k < c->n; k++) {
        free(c->member[k].stack);
        c->member[k].stack = NULL;
    }
    c->stop.timers->stacks_ns = notebook_now(c->nb) + TRACEBACK_NS;
    return true;
}

static void list_and_kill(struct cell *c)
{
    c->stop.timers->kill_ns = NEVER;
    if (!c->stop.timers->more_given && give_more_time(c))
        return;
    if (!c->stop.timers->listed)
        error_note_hangs(c);
    c->stop.timers->listed = true;
    kill_running(c);
}

void stop_after_failure(struct cell *c)
{
    const uint64_t now = notebook_now(c->nb);
    struct stop_timers *t = c->stop.timers;

    if (c->stop.decided || c->stop.stopping)
        return;
    if (t->alike_limit_ns == NEVER)
        t->alike_limit_ns = now + ALIKE_MAX_NS;
    t->alike_ns = clock_earlier(now + ALIKE_NS, t->alike_limit_ns);
}

void stop_running(struct cell *c)
{
    c->stop.decided = true;
    c->stop.timers->alike_ns = NEVER;
    if (!c->stop.stopping)
        interrupt_running(c, CUT_NS);
}

void stop_cancel(struct cell *c)
{
    c->stop.timers->alike_ns = c->stop.timers->cut_ns = c->stop.timers->stacks_ns =
        c->stop.timers->kill_ns = c->stop.timers->gone_ns = NEVER;
    cut_ranks_cancel(c);
}

static void show_and_stop(struct cell *c)
{
    error_show(c, error_of_cell(c));
    stop_running(c);
}

/* No rank runs the cell: it ends at once. */
static void interrupt_idle(struct cell *c)
{
    const bool ends = c->plan.kind == PLAN_RANKS && (c->plan.ranks_do == PLAN_RANKS_STOP ||
                                                     c->plan.ranks_do == PLAN_RANKS_RESTART);

    if (c->engine.waits == CELL_WAITS_FOR_NODES)
        cell_fail(c, "KeyboardInterrupt", "%s was still starting, and is stopped",
                  c->nb->group->on);
    else if (c->engine.waits == CELL_WAITS_FOR_ROOM)
        cell_fail(c, "KeyboardInterrupt",
                  "the cell waited for a machine of %s that is slow to take what was sent to it",
                  c->nb->group->on);
    else if (c->engine.waits == CELL_WAITS_FOR_PARKED)
        cell_fail(c, "KeyboardInterrupt", "the cell waited for parked ranks to come back");
    else if (c->now.step->phase == CELL_AFTER)
        cell_fail(c, "KeyboardInterrupt", "what the ranks answered was on its way home");
    else if (ends)
        cell_fail(c, "KeyboardInterrupt",
                  "interrupted: ranks that have ended are started by the next cell");
    else if (c->plan.kind == PLAN_RANKS)
        cell_fail(c, "KeyboardInterrupt", "%%ranks%s%s was interrupted",
                  c->plan.ranks_do == PLAN_RANKS_TABLE ? "" : " ",
                  ranks_command_name(c->plan.ranks_do));
    else
        cell_fail(c, "KeyboardInterrupt", "the cell had not begun to run on the ranks");
}

void stop_by_interrupt(struct cell *c)
{
    if (!cell_runs(c)) {
        interrupt_idle(c);
    } else if (c->stop.interrupts++ == 0) {
        c->stop.timers->interrupted_ns = notebook_now(c->nb);
        interrupt_running(c, INTERRUPT_CUT_NS);
        away_nodes_interrupted(c);
    } else if (notebook_now(c->nb) - c->stop.timers->interrupted_ns >= SECOND_INTERRUPT_NS)
        kill_running(c);
}

void stop_by_signal(struct cell *c, unsigned signal)
{
    const struct span m = { .kind = SPAN_KILL,
                            .cell = c->id,
                            .v[F_KILL_SIGNAL].u64 = signal,
                            .v[F_KILL_GRACE_MS].u64 = SIGNAL_GRACE_MS };

    if (!cell_runs(c) || !cell_own_group(c)) {
        stop_by_interrupt(c);
        return;
    }
    c->stop.stopping = true;
    c->stop.timers->alike_ns = NEVER;
    cell_send_running(c, &m);
}

static void time_out(struct cell *c)
{
    c->stop.timers->timeout_ns = NEVER;
    if (c->plan.timeout_ns)
        cell_fail(c, "TimeoutError", "--timeout: the cell still ran after %.4g s",
                  (double)timeout(c) / 1e9);
    else
        cell_fail(c, "TimeoutError",
                  "CELLSPAN_TIMEOUT: the cell still ran after %.4g s (`cellspan config` says where "
                  "that is set)",
                  (double)timeout(c) / 1e9);
}

static void cut_connections(struct cell *c)
{
    c->stop.timers->cut_ns = NEVER;
    /* in the next cell, ranks leave their process group and may make another one */
    group_break_in(c->group, c->stop.interrupts ? "was interrupted" : "failed", c->from.count);
    cut_ranks_begin(c);
}

static void put_off(struct cell *c, uint64_t ns)
{
    struct stop_timers *t = c->stop.timers;
    uint64_t *const due[] = { &t->alike_ns,   &t->cut_ns,  &t->stacks_ns,   &t->kill_ns,
                              &t->timeout_ns, &t->gone_ns, &t->callbacks_ns };

    c->stop.at_breakpoints_ns += ns;
    cut_ranks_put_off(c, ns);
    for (size_t k = 0; k < sizeof due / sizeof *due; k++)
        if (*due[k] != NEVER)
            *due[k] += ns;
}

void stop_put_off(struct notebook *nb, uint64_t ns)
{
    if (!ns || !nb->cells)
        return;
    CELLS_EACH (c, nb)
        put_off(c, ns);
}

uint64_t stop_due(const struct cell *c)
{
    const struct stop_timers *t = c->stop.timers;

    return clock_earlier(clock_earlier(clock_earlier(t->alike_ns, t->timeout_ns),
                                       clock_earlier(t->stacks_ns, t->kill_ns)),
                         t->cut_ns);
}

void stop_tick(struct cell *c, uint64_t now)
{
    const struct stop_timers *t = c->stop.timers;

    if (now >= t->timeout_ns)
        time_out(c);
    else if (now >= t->alike_ns)
        show_and_stop(c);
    else if (now >= t->cut_ns)
        cut_connections(c);
    else if (now >= t->stacks_ns)
        ask_stacks(c);
    else if (now >= t->kill_ns)
        list_and_kill(c);
}

void stop_on_stack(struct cell *c, uint32_t worker, struct slice text)
{
    struct member *member = cell_worker(c, worker);

    if (!member || c->stop.timers->kill_ns == NEVER)
        return;
    free(member->stack);
    member->stack = slice_copy(text);
    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_RUNNING && !c->member[k].stack)
            return;
    list_and_kill(c);
}

/* ---- callbacks of widgets that ranks run, while the cell waits for them ---- */

static void callback_is_late(void *cell, unsigned rank, unsigned seconds)
{
    output_note(cell,
                "a widget's callback has run for %u s on rank %u, and this cell waits for it: "
                "it is interrupted",
                seconds, rank);
}

uint64_t stop_callbacks_due(const struct cell *c)
{
    return comm_routes_late_due(c->nb, c->stop.timers->callbacks_ns);
}

void stop_callbacks_tick(struct cell *c, uint64_t now)
{
    (void)now;
    comm_routes_interrupt_late(c->nb, &c->stop.timers->callbacks_ns, &c->to, callback_is_late, c);
}
