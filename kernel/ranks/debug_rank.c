/* SPDX-License-Identifier: BSD-3-Clause */
/* debug_rank.c - answers `%ranks debug`, which chooses the rank that the debugger shows, or
 * continues all workers that are stopped at a breakpoint (declared in ranks.h). */
#include "kernel/notebook/debugger.h"
#include "kernel/ranks/ranks.h"

static void answer(struct notebook *nb, struct request *r, const char *rank, struct slice code)
{
    const bool store = !request_flag(r, "silent", false) && request_flag(r, "store_history", true);
    struct err err = { "" };
    int rc;

    nb->count += store;
    notebook_announce(nb, r, nb->count);
    rc = debugger_command(nb, rank, &err);
    ranks_answer(nb, r, nb->count, rc < 0 ? "UsageError" : NULL, err.text);
    if (store)
        notebook_record(nb, notebook_next_cell(nb), nb->count, code);
}

bool debug_rank_request(struct notebook *nb, struct request *r)
{
    const struct slice code = text_slice(request_content(r), "code");
    struct plan plan;

    if (!nb->debugger || nb->queue.aborting || !plan_is_ranks(code, PLAN_RANKS_DEBUG, &plan))
        return false;
    answer(nb, r, plan.ranks, code);
    plan_release(&plan);
    return true;
}
