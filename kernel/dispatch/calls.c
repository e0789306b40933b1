/* calls.c - calls of home (CALL): they wait here until they begin to run as cells (declared in
 * private.h).
 *
 * A call begins when no cell runs. It may begin beside others if it names its ranks, no other cell
 * uses these, and it takes the world as it is. */
#include <stdlib.h>

#include "kernel/dispatch/private.h"

/* ---- a call comes ---- */

static void refuse_call(struct notebook *nb, uint64_t asker, uint64_t call, const char *ename,
                        const char *why)
{
    struct span m = { .kind = SPAN_RETURN, .worker = SPAN_WORKER_HOME, .cell = asker };
    struct buf text = BUF_INIT;

    m.v[F_RETURN_CALL].u64 = call;
    if (text_json(&text, json_pack("{s:s, s:s, s:s, s:[]}", "status", "error", "ename", ename,
                                   "evalue", why, "traceback")) == 0) {
        m.v[F_RETURN_STATUS].s = slice_text("error");
        m.v[F_RETURN_CONTENT].s = buf_slice(&text);
        notebook_send(nb, SPAN_WORKER_HOME, &m);
    }
    buf_release(&text);
}

void calls_add(struct notebook *nb, const struct span *m)
{
    struct cell *c = cell_of_call(nb, m);

    if (!c)
        refuse_call(nb, m->cell, m->v[F_CALL_CALL].u64, "RuntimeError",
                    "the kernel is out of memory");
    else if (!table_calls_take(nb, c))
        cell_append(&nb->calls, c);
}

/* ---- which call begins ---- */

/* All ranks of the last world are there, and nothing is about to change that. */
static bool world_is_whole(const struct group *g)
{
    if (!g->world || !g->port || g->broken || g->world > g->size)
        return false;
    for (unsigned k = 0; k < g->world; k++)
        if (!rank_alive(&g->rank[k]) || g->rank[k].state == RANK_STARTING)
            return false;
    return true;
}

static int add_all(struct ranks *to, const struct ranks *which)
{
    RANKS_EACH (k, which)
        if (ranks_add(to, (unsigned)k) < 0)
            return -1;
    return 0;
}

/* The ranks of the cells that run. -1: a cell that begins or ends now, or has ranks of its own,
 * runs alone. */
static int ranks_that_run(const struct notebook *nb, struct ranks *taken)
{
    CELLS_EACH (c, nb)
        if (!cell_runs(c) || c->script_group || add_all(taken, &c->to) < 0)
            return -1;
    return 0;
}

/* Does it belong to the world as it is? Then *which are its ranks. */
static bool fits_world(const struct cell *c, struct ranks *which)
{
    const struct group *g = c->nb->group;
    struct err err;

    ranks_clear(which);
    return c->from.ranks && (c->from.n == PLAN_N_UNSET ? g->asked : c->from.n) == g->world &&
           ranks_parse(which, c->from.ranks, g->world, &err) == 0;
}

static bool are_free(const struct group *g, const struct ranks *which, const struct ranks *taken)
{
    RANKS_EACH (k, which)
        if (ranks_has(taken, (unsigned)k) || g->rank[k].state != RANK_IDLE)
            return false;
    return true;
}

/* The first call whose ranks no cell uses. Calls for the same ranks keep their order, and no call
 * goes before one that needs all ranks. NULL: none can begin now. */
static struct cell **find_beside(struct notebook *nb)
{
    struct ranks taken = RANKS_INIT, which = RANKS_INIT;
    struct cell **at = &nb->calls, **found = NULL;

    if (world_is_whole(nb->group) && ranks_that_run(nb, &taken) == 0)
        for (; *at && !found && fits_world(*at, &which); at = &(*at)->from.next) {
            if (are_free(nb->group, &which, &taken))
                found = at;
            else if (add_all(&taken, &which) < 0)
                break;
        }
    ranks_release(&taken);
    ranks_release(&which);
    return found;
}

/* Does a client's cell on ranks wait? It goes before calls of threads, which may never end. */
static bool client_waits(const struct notebook *nb)
{
    struct request *r = nb->home.executing || nb->over ? NULL : queue_first(&nb->queue);

    return r && cell_is_ours(r);
}

bool calls_begin(struct notebook *nb)
{
    struct cell **at, *c;

    if (!nb->calls || client_waits(nb))
        return false;
    if (!(at = nb->cells ? find_beside(nb) : &nb->calls))
        return false;
    question_over(nb);
    c = cell_take_out(at);
    c->from.overlaps = nb->cells != NULL;
    cell_append(&nb->cells, c);
    cell_steps_begin(c);
    return true;
}

/* ---- their ends ---- */

static void interrupt_waiting(struct notebook *nb, struct cell *c)
{
    refuse_call(nb, c->from.asker, c->from.call, "KeyboardInterrupt",
                "another cell was running on the ranks");
    cell_destroy(c);
}

void calls_interrupt(struct notebook *nb)
{
    while (nb->calls)
        interrupt_waiting(nb, cell_take_out(&nb->calls));
}

void calls_end(struct notebook *nb, uint64_t call)
{
    for (struct cell **at = &nb->calls; *at; at = &(*at)->from.next)
        if ((*at)->from.call == call) {
            interrupt_waiting(nb, cell_take_out(at));
            return;
        }
    CELLS_EACH (c, nb)
        if (c->from.is_call && c->from.call == call && !c->stop.interrupts)
            stop_by_interrupt(c);
}

void calls_free(struct cell *list)
{
    while (list)
        cell_destroy(cell_take_out(&list));
}

void calls_drop(struct notebook *nb)
{
    table_calls_drop(nb);
    calls_free(nb->calls);
    nb->calls = NULL;
    cell_drop_returns(nb);
}
