/* calls.c - calls of home (CALL): they wait here until they begin to run as cells (declared in
 * private.h).
 *
 * A cell on ranks begins when no other runs. It may begin beside others if it names its ranks, no
 * other cell uses these, and it takes the world as it is. Of the others, at most one is a client's:
 * the rest are calls. */
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
        cell_append(&nb->calls.first, c);
}

/* ---- which cells may run at the same time ---- */

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

/* Are they ranks of the world as it is, which need not be started? Then *which are these ranks. */
static bool are_there(const struct group *g, const char *ranks, unsigned n, struct ranks *which)
{
    struct err err;

    ranks_clear(which);
    if (!ranks || !g->world || !g->port || (n == PLAN_N_UNSET ? g->asked : n) != g->world ||
        ranks_parse(which, ranks, g->world, &err) < 0)
        return false;
    RANKS_EACH (k, which)
        if (g->rank[k].state != RANK_IDLE && g->rank[k].state != RANK_BUSY)
            return false;
    return true;
}

static bool are_free(const struct group *g, const struct ranks *which, const struct ranks *taken)
{
    RANKS_EACH (k, which)
        if (ranks_has(taken, (unsigned)k) || g->rank[k].state != RANK_IDLE)
            return false;
    return true;
}

bool calls_leave_room(const struct notebook *nb, struct request *r)
{
    struct ranks taken = RANKS_INIT, which = RANKS_INIT;
    unsigned n = 0;
    char *ranks = cell_named_ranks(text_slice(request_content(r), "code"), &n);
    const bool fits = ranks_that_run(nb, &taken) == 0 && are_there(nb->group, ranks, n, &which) &&
                      are_free(nb->group, &which, &taken);

    free(ranks);
    ranks_release(&taken);
    ranks_release(&which);
    return fits;
}

/* ---- what holds calls back ---- */

/* Does a cell of a client wait only for calls? It goes before calls of threads, which may never
 * end. */
static bool client_waits(const struct notebook *nb)
{
    struct request *r = nb->home.executing || nb->over ? NULL : queue_first(&nb->queue);

    return r && !cell_of_client(nb) && (nb->cells || cell_is_ours(r));
}

/* Calls are held back from now on. */
static void hold(struct notebook *nb)
{
    struct call_list *l = &nb->calls;

    if (l->held_ns)
        return;
    l->held_ns = notebook_now(nb);
    l->most = 0;
    for (unsigned k = 0; k < nb->group->size; k++)
        if (nb->group->rank[k].turns > l->most)
            l->most = nb->group->rank[k].turns;
}

/* A call that is held back may begin nevertheless, once on each rank, if other ranks have begun
 * more calls than these: one of them may wait for it in a collective. */
static bool catches_up(const struct notebook *nb, const struct ranks *which)
{
    RANKS_EACH (k, which) {
        const struct rank *r = &nb->group->rank[k];

        if (r->turns >= nb->calls.most || r->since_ns > nb->calls.held_ns)
            return false;
    }
    return true;
}

/* The first call that may begin beside others. A call that needs all ranks, or starts some, holds
 * back those that came later. Calls for the same ranks keep their order. */
static struct cell **first_free(struct notebook *nb, struct ranks *taken, struct ranks *which)
{
    const struct group *g = nb->group;
    bool held = client_waits(nb);

    for (struct cell **at = &nb->calls.first; *at; at = &(*at)->from.next) {
        if (held)
            hold(nb);
        if (!are_there(g, (*at)->from.ranks, (*at)->from.n, which))
            held = true;
        else if (are_free(g, which, taken) && (!held || catches_up(nb, which)))
            return at;
        else if (add_all(taken, which) < 0)
            break;
    }
    if (!held)
        nb->calls.held_ns = 0;
    return NULL;
}

/* NULL: none can begin now. */
static struct cell **find_beside(struct notebook *nb)
{
    struct ranks taken = RANKS_INIT, which = RANKS_INIT;
    struct cell **at = ranks_that_run(nb, &taken) == 0 ? first_free(nb, &taken, &which) : NULL;

    ranks_release(&taken);
    ranks_release(&which);
    return at;
}

bool calls_begin(struct notebook *nb)
{
    struct cell **at = &nb->calls.first;

    if (!*at || (!nb->cells && client_waits(nb)))
        return false;
    if (!nb->cells)
        nb->calls.held_ns = 0;
    else if (!(at = find_beside(nb)))
        return false;
    question_over(nb);
    cell_enter(nb, cell_take_out(at));
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
    while (nb->calls.first)
        interrupt_waiting(nb, cell_take_out(&nb->calls.first));
}

void calls_end(struct notebook *nb, uint64_t call)
{
    for (struct cell **at = &nb->calls.first; *at; at = &(*at)->from.next)
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
    calls_free(nb->calls.first);
    nb->calls.first = NULL;
    cell_drop_returns(nb);
}
