/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that do not end although they were killed. */
#include "kernel/cell/cell_runs.h"
#include "kernel/cell/cell_stops.h"

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

    stop_killed_over(c);
    gone.v[F_EXITED_CAUSE].s = slice_text("is gone: it did not end when it was killed");
    for (unsigned k = 0; k < g->size; k++) {
        const uint32_t worker = g->rank[k].worker;

        if (!worker || !is_stuck(c, &g->rank[k]))
            continue;
        output_note(
            c,
            "rank %u (pid %ld on %s) did not end %u s after it was killed, and is left behind: a driver or a "
            "file system holds it",
            k, g->rank[k].pid, notebook_node_name(c->nb, g->rank[k].node),
            (unsigned)(STUCK_NS / NS_PER_S));
        gone.v[F_EXITED_PID].u64 = (uint64_t)g->rank[k].pid;
        c->nb->ops.forget(c->nb->ops.arg, worker);
        rank_events_exited(c->nb, worker, &gone);
    }
}

void stuck_ranks_tick(struct cell *c, uint64_t now)
{
    if (now >= stop_killed_due(c))
        give_up(c);
}
