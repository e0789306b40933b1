/* SPDX-License-Identifier: BSD-3-Clause */
/* may_begin.c - what may begin while cells run on ranks (a client's cell, a call), and the calls of
 * home that wait until they may. The table of may_begin.h says when. */
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

/* Does a cell at home wait for this call, or for its begin? A call of a thread may be waited for by
 * that thread alone. But the cell that makes an asynchronous call waits until the call has begun.
 */
static bool is_waited_for(const struct cell *c)
{
    const struct asked *at_home = c->nb->home.executing;

    return !(c->from.call_flags & CALL_ASYNC) || async_is_of_subshell(c) ||
           (!cell_is_function(c) && at_home && at_home->cell == c->from.asker);
}

void calls_add(struct notebook *nb, const struct span *m)
{
    struct cell *c = cell_of_call(nb, m);

    if (!c)
        refuse_call(nb, m->cell, m->v[F_CALL_CALL].u64, "RuntimeError",
                    "the kernel is out of memory");
    else if (!immediate_call(nb, c)) {
        cell_append(&nb->calls.first, c);
        if (is_waited_for(c))
            live_wait(c);
    }
}

/* ---- which ranks are free ---- */

/* Adds the ranks of the cells that run. -1: no cell may overlap them, because one of them is
 * being prepared, is ending or has ranks of its own; or memory is out. */
static int ranks_that_run(const struct notebook *nb, struct ranks *taken)
{
    CELLS_EACH (c, nb)
        if (!cell_runs(c) || cell_own_group(c) || ranks_add_all(taken, &c->to) < 0)
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
        if (g->rank[k].state != RANK_IDLE)
            return false;
    return !ranks_overlap(which, taken);
}

/* ---- what holds calls back ---- */

/* Calls that wait, and a client's cell that waits, hold back calls that come later and need the
 * same ranks; if they need all ranks, or start some, they hold back all. But a call that runs may
 * wait in a collective for one that is held back. So if nothing begins or ends for a while, all
 * calls begin whose ranks are free. Each time that this does not help, it takes twice as long: so
 * what holds them back gets its turn even if calls never end. */
#define HOLD_NS      NS_PER_S
#define RELEASES_MAX 8u
#define RELEASED     NEVER /* since_ns: calls begin whose ranks are free */

bool calls_client_waits(const struct notebook *nb)
{
    struct request *r = nb->home.executing || nb->shutdown_asked ? NULL : queue_first(&nb->queue);

    return r && !cell_of_client(nb) && (nb->cells || cell_is_ours(r));
}

/* The ranks for which something waits. */
struct claims {
    bool any, all;
    struct ranks ranks;
};

static void claim(struct claims *claims, const struct ranks *which)
{
    claims->any = true;
    if (!which || ranks_add_all(&claims->ranks, which) < 0)
        claims->all = true;
}

static void claim_for_client(struct notebook *nb, struct claims *claims)
{
    struct ranks which = RANKS_INIT;
    unsigned n = 0;
    char *ranks = cell_named_ranks(text_slice(request_content(queue_first(&nb->queue)), "code"),
                                   &n);

    claim(claims, are_there(nb->group, ranks, n, &which) ? &which : NULL);
    free(ranks);
    ranks_release(&which);
}

/* ---- the table of may_begin.h ---- */

/* What wants to begin. */
struct wish {
    enum begin_who who;
    bool there;                  /* it names ranks of the world as it is, */
    struct ranks which;          /* and these are they */
    bool overlaps;               /* see BEGIN_OVERLAPS */
    const struct claims *claims; /* of what came before; NULL: nothing did */
};

/* running: the ranks of the cells that run, of which there are some */
static void wish_for_ranks(struct wish *w, const struct notebook *nb, const char *ranks, unsigned n,
                           const struct ranks *running)
{
    w->there = are_there(nb->group, ranks, n, &w->which);
    w->overlaps = w->there && are_free(nb->group, &w->which, running);
}

static bool holds(const struct notebook *nb, const struct wish *w, enum begin_when when)
{
    switch (when) {
    case BEGIN_NONE_RUNS:
        return !nb->cells;
    case BEGIN_HOME_FREE:
        return home_waits_for_none(nb);
    case BEGIN_OVERLAPS:
        return w->overlaps;
    case BEGIN_NO_CELL_WAITS:
        return !calls_client_waits(nb);
    case BEGIN_UNCLAIMED:
        return !w->claims || (!w->claims->all && !ranks_overlap(&w->claims->ranks, &w->which));
    case BEGIN_STANDS_STILL:
        return nb->calls.held->since_ns == RELEASED;
    }
    return false;
}

static bool rules_let(const struct notebook *nb, const struct wish *w)
{
#define RULE(who, when) { who, when },
    static const struct {
        enum begin_who who;
        unsigned when;
    } rules[] = { BEGIN_RULES(RULE) };
#undef RULE

    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        bool all = rules[k].who == w->who;

        for (unsigned bit = 1; all && bit <= rules[k].when; bit *= 2)
            all = !(rules[k].when & bit) || holds(nb, w, (enum begin_when)bit);
        if (all)
            return true;
    }
    return false;
}

bool may_begin_now(const struct notebook *nb, struct request *r)
{
    struct wish w = { .who = cell_is_ours(r) ? BEGIN_CELL_ON_RANKS : BEGIN_CELL_AT_HOME,
                      .which = RANKS_INIT };
    struct ranks running = RANKS_INIT;
    bool may;

    if (nb->cells && w.who == BEGIN_CELL_ON_RANKS && home_waits_for_none(nb) &&
        ranks_that_run(nb, &running) == 0) {
        unsigned n = 0;
        char *ranks = cell_named_ranks(text_slice(request_content(r), "code"), &n);

        wish_for_ranks(&w, nb, ranks, n, &running);
        free(ranks);
    }
    may = rules_let(nb, &w);
    ranks_release(&running);
    ranks_release(&w.which);
    return may;
}

/* ---- what is in the way ---- */

static bool is_in_the_way(const struct wish *w, const struct cell *c)
{
    if (w->who != BEGIN_CALL && !async_runs(c))
        return true; /* home waits for it */
    return w->who != BEGIN_CELL_AT_HOME &&
           (!w->there || !cell_runs(c) || cell_own_group(c) || ranks_overlap(&c->to, &w->which));
}

size_t cells_in_the_way(const struct notebook *nb, const struct cell *waits,
                        const struct cell **first)
{
    const bool call = waits->from.is_call;
    struct wish w = { .which = RANKS_INIT };
    unsigned of = waits->plan.n;
    char *named = NULL;
    size_t n = 0;

    w.who = call                                ? BEGIN_CALL
            : cell_is_ours(waits->from.request) ? BEGIN_CELL_ON_RANKS
                                                : BEGIN_CELL_AT_HOME;
    if (w.who == BEGIN_CELL_ON_RANKS)
        named = cell_named_ranks(slice_of(waits->from.text, waits->from.text_size), &of);
    w.there = are_there(nb->group, call ? cell_call_ranks(waits) : named, of, &w.which);
    *first = NULL;
    CELLS_EACH (c, nb)
        if (is_in_the_way(&w, c) && n++ == 0)
            *first = c;
    free(named);
    ranks_release(&w.which);
    return n;
}

/* ---- the next call ---- */

/* Nothing can begin now. blocked: some calls only wait for others that wait. */
static void stand_still(struct notebook *nb, const struct claims *claims, bool blocked)
{
    struct held_calls *l = nb->calls.held;

    if (l->since_ns == RELEASED && l->releases < RELEASES_MAX)
        l->releases++;
    if (!claims->any)
        l->releases = 0;
    if (!blocked)
        l->since_ns = 0;
    else if (!l->since_ns || l->since_ns == RELEASED)
        l->since_ns = notebook_now(nb);
}

/* The first call that may begin. running: the ranks of the cells that run. */
static struct cell **first_to_begin(struct notebook *nb, const struct ranks *running)
{
    struct claims claims = { .ranks = RANKS_INIT };
    struct wish w = { .who = BEGIN_CALL, .which = RANKS_INIT, .claims = &claims };
    struct cell **at = &nb->calls.first;
    bool found = false, blocked = false;

    if (calls_client_waits(nb))
        claim_for_client(nb, &claims);
    for (; *at; at = &(*at)->from.next) {
        if (nb->cells)
            wish_for_ranks(&w, nb, cell_call_ranks(*at), (*at)->plan.n, running);
        found = rules_let(nb, &w);
        if (found)
            break;
        blocked = blocked || w.overlaps;
        claim(&claims, w.there ? &w.which : NULL);
    }
    if (!found)
        stand_still(nb, &claims, blocked);
    ranks_release(&claims.ranks);
    ranks_release(&w.which);
    return found ? at : NULL;
}

/* NULL: none can begin now. */
static struct cell **next_call(struct notebook *nb)
{
    struct ranks running = RANKS_INIT;
    struct cell **at = nb->calls.first && ranks_that_run(nb, &running) == 0
                           ? first_to_begin(nb, &running)
                           : NULL;

    ranks_release(&running);
    return at;
}

uint64_t calls_due(const struct notebook *nb)
{
    const struct held_calls *l = nb->calls.held;

    return l->since_ns && l->since_ns != RELEASED ? l->since_ns + (HOLD_NS << l->releases) : NEVER;
}

void calls_moved(struct notebook *nb)
{
    if (nb->calls.held->since_ns && nb->calls.held->since_ns != RELEASED)
        nb->calls.held->since_ns = notebook_now(nb);
}

bool calls_begin(struct notebook *nb)
{
    struct cell **at;

    if (!nb->calls.first || !nb->cells) {
        nb->calls.held->since_ns = 0;
        nb->calls.held->releases = 0;
    } else if (notebook_now(nb) >= calls_due(nb)) {
        nb->calls.held->since_ns = RELEASED;
    }
    if (!(at = next_call(nb)))
        return false;
    question_end(nb);
    live_wait_over(*at);
    cell_enter(nb, cell_take_out(at));
    calls_moved(nb);
    return true;
}

/* ---- their ends ---- */

static void interrupt_waiting(struct notebook *nb, struct cell *c)
{
    live_wait_over(c);
    refuse_call(nb, c->from.asker, c->from.call, "KeyboardInterrupt",
                "another cell was running on the ranks");
    cell_destroy(c);
}

void calls_interrupt(struct notebook *nb)
{
    for (struct cell **at = &nb->calls.first; *at;)
        if (async_is_interrupted(*at))
            interrupt_waiting(nb, cell_take_out(at));
        else
            at = &(*at)->from.next;
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
    immediate_drop(nb);
    for (struct cell *c = nb->calls.first; c; c = c->from.next)
        live_wait_over(c);
    calls_free(nb->calls.first);
    nb->calls.first = NULL;
    cell_drop_returns(nb);
}

void calls_release(struct notebook *nb)
{
    calls_drop(nb);
    cell_destroy(nb->calls.client);
    free(nb->calls.held);
}
