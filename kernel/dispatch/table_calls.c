/* table_calls.c - answers calls of `%ranks` while another cell runs, such as those of subshells and
 * threads (declared in private.h). */
#include "kernel/dispatch/private.h"

bool table_calls_take(struct notebook *nb, struct cell *c)
{
    struct plan plan;

    if (!nb->cells ||
        !plan_is_ranks(slice_of(c->from.text, c->from.text_size), PLAN_RANKS_TABLE, &plan))
        return false;
    plan_release(&plan);
    rank_table_begin(c);
    cell_append(&nb->meanwhile.tables, c);
    table_calls_tick(nb);
    return true;
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
        finish_return(cell_take_out(at));
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
    calls_free(nb->meanwhile.tables);
    nb->meanwhile.tables = NULL;
}
