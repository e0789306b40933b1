/* SPDX-License-Identifier: BSD-3-Clause */
/* %ranks code: which of the notebook's modules other machines have got. A thread of home tells it,
 * so that it is answered while home runs a cell, too. */
#include "kernel/cell/error_text.h"
#include "kernel/ranks/ranks.h"

#define ANSWER_NS (10 * NS_PER_S) /* for home */

void rank_code_begin(struct cell *c)
{
    const uint32_t home = SPAN_WORKER_HOME;
    struct span m = { .kind = SPAN_FIND, .worker = home, .cell = c->id };
    struct err err = { "" };

    m.v[F_FIND_WHAT].s = slice_text("report");
    m.v[F_FIND_QUESTION].s = slice_text("{}");
    cell_limit_step(c, notebook_now(c->nb) + ANSWER_NS);
    if (notebook_send_to(c->nb, &home, 1, &m, &err) < 0)
        cell_fail(c, "RuntimeError", "home can't be asked: %s", err.text);
}

/* Without a limit there is nothing to wait for. */
enum cell_outcome rank_code_poll(struct cell *c)
{
    return c->now.due_ns == NEVER ? CELL_DONE : CELL_STAYS;
}

void rank_code_timed_out(struct cell *c)
{
    cell_fail(
        c, "TimeoutError",
        "home has not answered for 10 s: it runs something that lets no other thread run; run "
        "%%ranks code again when that is done");
}

void rank_code_on_found(struct cell *c, const struct span *found)
{
    json_t *said;
    struct slice text;

    if (c->plan.kind != PLAN_RANKS || c->plan.ranks_do != PLAN_RANKS_CODE ||
        rank_code_poll(c) == CELL_DONE)
        return;
    said = text_parse(found->v[F_FOUND_CONTENT].s);
    text = text_slice(said, "text");
    cell_limit_step(c, NEVER);
    if (text_field(said, "error")[0])
        cell_fail(c, "RuntimeError", "%s", text_field(said, "error"));
    else if (text.n)
        output_text(c, 1, text);
    else
        output_news(c, "no modules of this notebook went to other machines");
    json_decref(said);
}

const struct cell_step cell_code = { CELL_BEFORE, .begin = rank_code_begin, .poll = rank_code_poll,
                                     .timed_out = rank_code_timed_out };
