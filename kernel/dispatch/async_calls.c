/* SPDX-License-Identifier: BSD-3-Clause */
/* async_calls.c - calls for which home does not wait (CALL_ASYNC): what runs beside them, and what
 * ends them (declared in private.h). */
#include "kernel/dispatch/private.h"

bool async_is_of_subshell(const struct cell *c)
{
    const struct asked *a = c->from.is_call ? home_asked(c->nb, c->from.asker) : NULL;

    return a && a->subshell;
}

bool async_runs(const struct cell *c)
{
    return c->from.is_call && (c->from.call_flags & CALL_ASYNC) &&
           (cell_runs(c) || async_is_of_subshell(c));
}

bool home_waits_for_none(const struct notebook *nb)
{
    CELLS_EACH (c, nb)
        if (!async_runs(c))
            return false;
    return true;
}

bool async_home_waits(const struct notebook *nb)
{
    CELLS_EACH (c, nb)
        if (!(c->from.call_flags & CALL_ASYNC))
            return true;
    return false;
}

/* If the main shell runs a cell, at home or on ranks, the interrupt is for that one, and not for
 * calls for which home does not wait. But calls of the threads that the cell at home has started
 * end, too, since it may wait for them: those that wait at once, those that run with the second
 * interrupt. An interrupt always ends a subshell's call. */
bool async_is_interrupted(const struct cell *c)
{
    const struct asked *at_home = c->nb->home.executing;
    const bool waits = !cell_find(c->nb, c->id);

    if (!(c->from.call_flags & CALL_ASYNC) || async_is_of_subshell(c))
        return true;
    return at_home ? (waits || at_home->interrupted) && c->from.asker == at_home->cell
                   : !async_home_waits(c->nb);
}

/* Can an interrupt end it, so that what comes next can begin? */
static bool can_end(const struct cell *c)
{
    return async_runs(c) && !async_is_of_subshell(c) && !c->stop.interrupts;
}

static bool all_are_in(const struct ranks *which, const struct ranks *all)
{
    RANKS_EACH (k, which)
        if (!ranks_has(all, (unsigned)k))
            return false;
    return true;
}

bool async_is_stopped_by(const struct cell *c, struct slice code)
{
    struct ranks which = { 0 };
    struct err err = { "" };
    struct plan plan;
    struct slice line;
    bool stops;

    if (plan_peek(code, &line) != 1 || !(slice_holds(line, "stop") || slice_holds(line, "restart")))
        return false;
    if (plan_parse(code, line, &plan, &err) < 0)
        return false;
    stops = plan.kind == PLAN_RANKS &&
            (plan.ranks_do == PLAN_RANKS_STOP || plan.ranks_do == PLAN_RANKS_RESTART);
    if (stops && plan.ranks)
        stops = ranks_parse(&which, plan.ranks, c->group->size, &err) == 0 &&
                all_are_in(&c->to, &which);
    ranks_release(&which);
    plan_release(&plan);
    return stops;
}

bool async_calls_interrupt(struct notebook *nb)
{
    struct request *r = nb->home.executing ? NULL : queue_first(&nb->queue);
    const struct cell *call = nb->calls.first;

    CELLS_EACH (c, nb)
        if (can_end(c) && !cell_own_group(c) &&
            ((r && async_is_stopped_by(c, text_slice(request_content(r), "code"))) ||
             (call && async_is_stopped_by(c, slice_of(call->from.text, call->from.text_size))))) {
            stop_by_interrupt(c);
            return true;
        }
    return false;
}
