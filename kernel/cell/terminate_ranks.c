/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends ranks before others start: all of them for --fresh, the chosen ones for %ranks stop and
 * %ranks restart. */
#include <signal.h>

#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"
#include "kernel/cell/cell_stops.h"

static bool is_stop_or_restart(const struct cell *c)
{
    return c->plan.kind == PLAN_RANKS && !c->engine.moves;
}

/* The ranks that the user has chosen; -1: the cell has failed. */
static int choose(struct cell *c, struct ranks *which)
{
    struct err err = { "" };
    struct group *g = c->nb->group;
    const unsigned n = group_listed(g);

    if (!c->plan.ranks)
        return group_living(g, which) < 0 ? cell_fail(c, "RuntimeError", "out of memory") : 0;
    if (n && ranks_parse(which, c->plan.ranks, n, &err) == 0)
        return 0;
    return n ? cell_fail(c, "UsageError", "%s", err.text)
             : cell_fail(c, "UsageError", NO_RANKS_YET);
}

static void end(struct cell *c, const struct ranks *which)
{
    stop_signal_ranks(c->nb, c->nb->group, which, SIGTERM, STOP_GRACE_MS);
    stop_wait_for_killed(c, STOP_GRACE_MS * NS_PER_MS);
}

static void terminate_begin(struct cell *c)
{
    struct ranks which = RANKS_INIT;
    struct group *g = c->nb->group;

    if (is_stop_or_restart(c)) {
        if (choose(c, &c->to) == 0)
            end(c, &c->to);
    } else if (group_living(g, &which) < 0) {
        cell_fail(c, "RuntimeError", "out of memory");
    } else if (ranks_count(&which)) {
        end(c, &which);
    } else if (group_stops(g)) { /* an earlier cell has told them to end, and waits no more */
        stop_wait_for_killed(c, STOP_GRACE_MS * NS_PER_MS);
    }
    ranks_release(&which);
}

static void note_ranks(struct cell *c, const char *what, const struct ranks *which)
{
    struct buf text = BUF_INIT;

    if (ranks_count(which) && ranks_format_words(which, &text) == 0 &&
        text_shorten(&text, ranks_count(which)) == 0)
        output_news(c, "%s: %s", text.p, what);
    buf_release(&text);
}

static enum cell_outcome terminate_poll(struct cell *c)
{
    struct group *g = c->nb->group;

    if (group_stops(g))
        return CELL_STAYS;
    stop_wait_for_killed_cancel(c);
    if (c->plan.fresh) /* forget earlier cells, so that new ranks don't report them as missed */
        group_forget_cells(g);
    if (!is_stop_or_restart(c) || c->plan.ranks_do != PLAN_RANKS_STOP)
        return CELL_DONE;
    note_ranks(c, "stopped", &c->to);
    if (!ranks_count(&c->to) && !g->on)
        output_news(c, "there are no ranks to stop");
    if (!c->plan.ranks) {
        g->asked = 0;
        engine_end(c->nb);
    }
    return CELL_IS_OVER;
}

const struct cell_step cell_stopping = { CELL_BEFORE, .ends_ranks = true, .begin = terminate_begin,
                                         .poll = terminate_poll };
