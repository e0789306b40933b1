/* table_calls.c - answers `%ranks` while another cell runs: a client's, and the calls of subshells
 * and threads (declared in private.h). */
#include "kernel/dispatch/private.h"
#include "kernel/ranks/ranks.h"

static bool is_table(struct slice text)
{
    struct plan plan;

    if (!plan_is_ranks(text, PLAN_RANKS_TABLE, &plan))
        return false;
    plan_release(&plan);
    return true;
}

static void take(struct notebook *nb, struct cell *c)
{
    rank_table_begin(c);
    cell_append(&nb->meanwhile.tables, c);
    table_calls_tick(nb);
}

/* A cell at home counts, too: it may run for long. A cell that waits in the queue may change the
 * ranks: the table that comes after it shows that. */
bool table_request(struct notebook *nb, struct request *r)
{
    const struct slice code = text_slice(request_content(r), "code");
    const bool store = !request_flag(r, "silent", false) && request_flag(r, "store_history", true);
    struct cell *c;

    if ((!nb->cells && !nb->home.executing) || nb->queue.aborting || queue_first(&nb->queue) ||
        !is_table(code) || !(c = cell_of_request(nb, r, nb->count + store)))
        return false;
    nb->count += store;
    notebook_announce(nb, r, nb->count);
    if (store)
        notebook_record(nb, c->id, nb->count, code);
    take(nb, c);
    return true;
}

bool table_calls_take(struct notebook *nb, struct cell *c)
{
    if (!nb->cells || !is_table(slice_of(c->from.text, c->from.text_size)))
        return false;
    take(nb, c);
    return true;
}

static void answer(struct notebook *nb, struct cell *c)
{
    if (c->from.is_call)
        finish_return(c);
    else
        ranks_answer(nb, c->from.request, c->from.count, NULL, NULL);
}

void table_calls_tick(struct notebook *nb)
{
    for (struct cell **at = &nb->meanwhile.tables; *at;) {
        struct cell *c = *at;

        if (notebook_now(nb) >= c->now.due_ns)
            cell_limit_step(c, NEVER);
        if (rank_table_look(c) == CELL_STAYS) {
            at = &c->from.next;
            continue;
        }
        answer(nb, cell_take_out(at));
        cell_destroy(c);
    }
}

uint64_t table_calls_due(const struct notebook *nb)
{
    uint64_t due = NEVER;

    for (const struct cell *c = nb->meanwhile.tables; c; c = c->from.next)
        due = clock_earlier(due, c->now.due_ns);
    return due;
}

void table_calls_drop(struct notebook *nb)
{
    for (struct cell **at = &nb->meanwhile.tables; *at;)
        if ((*at)->from.is_call)
            cell_destroy(cell_take_out(at));
        else
            at = &(*at)->from.next;
}
