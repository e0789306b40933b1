/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a cell on ranks from a client's request or from a CALL of home; frees cells. */
#include <stdlib.h>

#include "kernel/dispatch/private.h"

bool cell_is_ours(struct request *r)
{
    struct slice line;

    return plan_peek(text_slice(request_content(r), "code"), &line) == 1;
}

static bool takes_group_as_it_is(const struct plan *p)
{
    return (p->kind == PLAN_DISTRIBUTE || p->kind == PLAN_PUSH || p->kind == PLAN_PULL) &&
           !p->changes_group && p->n != PLAN_N_GPU;
}

const char *cell_call_ranks(const struct cell *c)
{
    return c->planned && takes_group_as_it_is(&c->plan) ? c->plan.ranks : NULL;
}

char *cell_named_ranks(struct slice text, unsigned *n)
{
    struct err err = { "" };
    struct slice line;
    struct plan p;
    char *ranks = NULL;

    if (plan_peek(text, &line) != 1 || slice_has(line, '{') || slice_has(line, '$') ||
        plan_parse(text, line, &p, &err) < 0)
        return NULL; /* an error is shown when the cell begins */
    if (takes_group_as_it_is(&p)) {
        *n = p.n;
        ranks = p.ranks;
        p.ranks = NULL;
    }
    plan_release(&p);
    return ranks;
}

static struct cell *cell_create(struct notebook *nb, const struct request *r, struct slice text)
{
    struct cell *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->nb = nb;
    c->group = nb->group;
    cell_steps_init(c);
    live_init(c);
    if (stop_init(c) < 0 || !(c->from.text = slice_copy(text))) {
        cell_destroy(c);
        return NULL;
    }
    c->from.text_size = text.n;
    c->id = notebook_next_cell(nb);
    c->from.request = r ? request_ref((struct request *)r) : NULL;
    return c;
}

void cell_destroy(struct cell *c)
{
    if (!c)
        return;
    output_close(c);
    cell_release_members(c);
    if (c->planned)
        plan_release(&c->plan);
    vars_bundles_release(&c->send.bundles);
    ranks_release(&c->to);
    ranks_release(&c->send.comparing);
    gpu_memory_release(c);
    stop_release(c);
    hang_release(c);
    rank_logs_free(c->magic.logs);
    group_destroy(cell_own_group(c));
    json_decref(c->prep.captured);
    json_decref(c->magic.table);
    check_free(c->magic.check);
    json_decref(c->bind.expressions);
    json_decref(c->fault.shown);
    cut_ranks_release(c);
    exchange_release(c);
    node_errors_release(c);
    broadcast_release(c);
    free(c->engine.said);
    json_decref(c->fault.whole);
    free(c->from.text);
    free(c->from.load);
    request_unref(c->from.request);
    free(c);
}

struct cell *cell_of_request(struct notebook *nb, struct request *r, unsigned count)
{
    struct cell *c = cell_create(nb, r, text_slice(request_content(r), "code"));

    if (!c)
        return NULL;
    c->from.count = count;
    return c;
}

void cell_enter(struct notebook *nb, struct cell *c)
{
    c->from.overlaps = nb->cells != NULL;
    cell_append(&nb->cells, c);
    cell_steps_begin(c);
}

void cell_begin(struct notebook *nb, struct request *r, unsigned count)
{
    struct cell *c = cell_of_request(nb, r, count);

    if (!c) {
        nb->ops.reply(nb->ops.arg, r, "execute_reply",
                      &(struct content){ .content = slice_text(NO_MEMORY) });
        nb->ops.status(nb->ops.arg, r, "idle");
        return;
    }
    c->from.stdin_allowed = request_flag(r, "allow_stdin", true);
    cell_enter(nb, c);
}

/* ---- a call of home ---- */

/* Home has looked at a function's variables itself, and pickled the function if it is small. */
static int take_function(struct cell *c, const struct span *m)
{
    const struct slice load = m->v[F_CALL_LOAD].s;

    if (load.n && !(c->from.load = slice_copy(load)))
        return -1;
    c->from.load_size = load.n;
    if (m->v[F_CALL_NAMES].s.n)
        capture_take(c, m->v[F_CALL_NAMES].s, m->v[F_CALL_WARNINGS].s);
    return 0;
}

struct cell *cell_of_call(struct notebook *nb, const struct span *m)
{
    struct cell *c = cell_create(nb, home_parent_of(nb, m->cell), m->v[F_CALL_TEXT].s);
    const struct asked *a;

    if (!c || take_function(c, m) < 0) {
        cell_destroy(c);
        return NULL;
    }
    c->from.is_call = c->from.wants_return = true;
    c->from.asker = m->cell;
    c->from.call = m->v[F_CALL_CALL].u64;
    c->from.call_flags = m->v[F_CALL_FLAGS].u64;
    a = home_asked(nb, m->cell);
    if (!a || !a->subshell)
        a = nb->home.executing;
    c->from.count = a ? a->count : nb->count;
    c->from.stdin_allowed = a && request_flag(a->r, "allow_stdin", true);
    expand_early(c);
    return c;
}

void cell_drop_returns(struct notebook *nb)
{
    CELLS_EACH (c, nb)
        c->from.wants_return = false;
}
