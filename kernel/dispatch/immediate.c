/* SPDX-License-Identifier: BSD-3-Clause */
/* immediate.c - answers `%ranks`, `%ranks logs`, `%ranks code` and `--help` while another cell
 * runs: a client's, and the calls of subshells and threads (declared in private.h); and always a
 * call that only has its line checked. Such a cell has no state: it stays in a list of its own
 * until nodes have answered. */
#include "kernel/dispatch/private.h"
#include "kernel/ranks/ranks.h"

static const enum plan_ranks commands[] = { PLAN_RANKS_TABLE, PLAN_RANKS_LOGS, PLAN_RANKS_CODE };

static bool is_ours(struct slice text)
{
    struct plan plan;

    for (size_t k = 0; k < sizeof commands / sizeof *commands; k++)
        if (plan_is_ranks(text, commands[k], &plan)) {
            plan_release(&plan);
            return true;
        }
    return plan_only_tells(text);
}

static bool is_check(const struct cell *c)
{
    return c->from.is_call && c->from.call_flags & CALL_CHECKED;
}

/* It got its help or its error when its line was read. */
static bool is_answered(const struct cell *c)
{
    return c->bad || !c->planned || c->plan.kind == PLAN_HELP || is_check(c);
}

static void begin(struct notebook *nb, struct cell *c)
{
    expand_as_it_is(c);
    if (is_check(c) && !c->bad && c->plan.on)
        (void)engine_exists(c, c->plan.on);
    if (!is_answered(c) && c->plan.ranks_do == PLAN_RANKS_TABLE)
        rank_table_begin(c);
    else if (!is_answered(c) && c->plan.ranks_do == PLAN_RANKS_CODE)
        rank_code_begin(c);
    else if (!is_answered(c))
        rank_logs_begin(c);
    cell_append(&nb->immediate.cells, c);
    immediate_tick(nb);
}

/* Does a cell of the same client wait in the queue? It may change the ranks, so that client expects
 * the answers in the order of its cells. */
static bool waits_behind(struct notebook *nb, const struct request *r)
{
    const struct queue *q = queue_of(nb, r);

    for (size_t k = 0; k < q->n; k++)
        if (request_same_client(q->item[k], r))
            return true;
    return false;
}

/* A cell that runs at home is another cell, too, since it may take long. */
bool immediate_request(struct notebook *nb, struct request *r)
{
    const struct slice code = text_slice(request_content(r), "code");
    const bool store = !request_flag(r, "silent", false) && request_flag(r, "store_history", true);
    struct cell *c;

    if ((!nb->cells && !nb->home.executing) || nb->queue.aborting || waits_behind(nb, r) ||
        !is_ours(code) || !(c = cell_of_request(nb, r, nb->count + store)))
        return false;
    nb->count += store;
    notebook_announce(nb, r, nb->count);
    if (store)
        notebook_record(nb, c->id, nb->count, code);
    begin(nb, c);
    return true;
}

bool immediate_call(struct notebook *nb, struct cell *c)
{
    if (!is_check(c) && (!nb->cells || !is_ours(slice_of(c->from.text, c->from.text_size))))
        return false;
    begin(nb, c);
    return true;
}

static bool is_over(struct cell *c)
{
    enum cell_outcome (*const poll)(struct cell *) = c->plan.ranks_do == PLAN_RANKS_TABLE
                                                         ? rank_table_poll
                                                     : c->plan.ranks_do == PLAN_RANKS_CODE
                                                         ? rank_code_poll
                                                         : rank_logs_poll;

    return is_answered(c) || poll(c) == CELL_DONE;
}

static void step_timed_out(struct cell *c)
{
    cell_limit_step(c, NEVER);
    if (c->plan.ranks_do == PLAN_RANKS_LOGS)
        rank_logs_timed_out(c);
    else if (c->plan.ranks_do == PLAN_RANKS_CODE)
        rank_code_timed_out(c);
}

void immediate_tick(struct notebook *nb)
{
    const uint64_t now = notebook_now(nb);

    for (struct cell **at = &nb->immediate.cells; *at;) {
        struct cell *c = *at;

        output_tick(c, now);
        if (!c->bad && now >= c->now.due_ns)
            step_timed_out(c);
        if (!is_over(c)) {
            at = &c->from.next;
            continue;
        }
        (void)cell_take_out(at);
        cell_end_beside(c);
        cell_destroy(c);
    }
}

uint64_t immediate_due(const struct notebook *nb)
{
    uint64_t due = NEVER;

    for (const struct cell *c = nb->immediate.cells; c; c = c->from.next)
        due = clock_earlier(due, clock_earlier(c->now.due_ns, output_due(c)));
    return due;
}

size_t immediate_waiting(const struct notebook *nb)
{
    size_t n = 0;

    for (const struct cell *c = nb->immediate.cells; c; c = c->from.next)
        n += output_waiting(c);
    return n;
}

void immediate_on_logs(struct notebook *nb, unsigned node, const struct span *m)
{
    for (struct cell *c = nb->immediate.cells; c; c = c->from.next)
        if (c->id == m->cell) {
            rank_logs_on_logs(c, node, m);
            immediate_tick(nb);
            return;
        }
}

void immediate_on_found(struct notebook *nb, const struct span *m)
{
    for (struct cell *c = nb->immediate.cells; c; c = c->from.next)
        if (c->id == m->cell) {
            rank_code_on_found(c, m);
            immediate_tick(nb);
            return;
        }
}

void immediate_lost(struct notebook *nb, unsigned node)
{
    for (struct cell *c = nb->immediate.cells; c; c = c->from.next)
        if (!c->bad)
            rank_logs_lost(c, node);
    immediate_tick(nb);
}

void immediate_drop(struct notebook *nb)
{
    for (struct cell **at = &nb->immediate.cells; *at;)
        if ((*at)->from.is_call)
            cell_destroy(cell_take_out(at));
        else
            at = &(*at)->from.next;
}
