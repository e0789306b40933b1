/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/cell/park.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define ANSWER_NS (5 * NS_PER_S) /* in which a rank says whether it can leave */

struct park {
    struct notebook *nb; /* borrowed */
    uint64_t id;         /* of the question that is open, to ranks and then to agents; 0: none is */
    struct ranks waiting; /* ranks that have not answered */
    uint64_t due_ns;      /* they are waited for until then; NEVER: nobody is */
    bool nccl;            /* some have NCCL communicators with each other */
    bool is_over;         /* an outcome is to be taken */
    bool wanted;          /* they were wanted back while they moved */
    struct park_outcome outcome;
};

struct park *park_create(struct notebook *nb)
{
    struct park *p = calloc(1, sizeof *p);

    if (p)
        *p = (struct park){ .nb = nb, .due_ns = NEVER };
    return p;
}

static void outcome_clear(struct park_outcome *o)
{
    ranks_release(&o->all);
    ranks_release(&o->moved);
    ranks_release(&o->lost);
    *o = (struct park_outcome){ .all = RANKS_INIT, .moved = RANKS_INIT, .lost = RANKS_INIT };
}

void park_destroy(struct park *p)
{
    if (!p)
        return;
    ranks_release(&p->waiting);
    outcome_clear(&p->outcome);
    free(p);
}

static void blame(struct park *p, const char *format, ...) PRINTF_LIKE(2, 3);

/* The first reason stays. */
static void blame(struct park *p, const char *format, ...)
{
    va_list args;

    if (p->outcome.why[0])
        return;
    va_start(args, format);
    vsnprintf(p->outcome.why, sizeof p->outcome.why, format, args);
    va_end(args);
    text_trim(p->outcome.why);
}

static void event(struct park *p, const struct ranks *which, enum parking_event e)
{
    struct rank *const rank = p->nb->group->rank;

    RANKS_EACH (k, which)
        rank[k].parking = parking_next(rank[k].parking, e);
}

static void finish(struct park *p)
{
    p->id = 0;
    p->due_ns = NEVER;
    p->is_over = true;
}

/* They stay, and p->outcome.why says why. */
static void give_up(struct park *p)
{
    event(p, &p->outcome.all, PARKING_WANTED);
    finish(p);
}

/* ---- what ranks say ---- */

/* Communicators between machines can't be moved: the other end would be gone. */
static bool are_on_one_node(const struct park *p, const struct ranks *which)
{
    const struct rank *const rank = p->nb->group->rank;
    const long first = ranks_next(which, 0);

    RANKS_EACH (k, which)
        if (rank[k].node != rank[first].node)
            return false;
    return true;
}

/* Those whose state is now `from` and becomes another one are told to move. */
static int tell_agents(struct park *p, uint64_t how, enum parking_event e, struct err *err)
{
    struct span m = { .kind = SPAN_PARK, .v[F_PARK_HOW].u64 = how };

    if (notebook_ask_ranks(p->nb, &p->outcome.all, &m, &p->id, err) < 0)
        return -1;
    event(p, &p->outcome.all, e);
    return 0;
}

static void all_have_answered(struct park *p)
{
    struct err err = { "" };

    p->due_ns = NEVER;
    if (p->nccl && !are_on_one_node(p, &p->outcome.all))
        blame(p, "they have NCCL communicators between machines");
    else if (tell_agents(p, p->nccl ? PARK_NCCL : 0, PARKING_TOLD, &err) == 0)
        return;
    else
        blame(p, "%s", err.text);
    give_up(p);
}

bool park_on_probed(struct park *p, const struct rank *r, const struct span *m)
{
    json_t *said;

    if (!p->id || m->cell != p->id || !ranks_has(&p->waiting, r->number) ||
        group_worker(p->nb->group, r->worker) != r)
        return false;
    said = text_parse(m->v[F_PROBED_CONTENT].s);
    ranks_remove(&p->waiting, r->number);
    if (!said || !slice_is(m->v[F_PROBED_STATUS].s, "ok"))
        blame(p, "rank %u can't tell what it has there", r->number);
    p->nccl = p->nccl || json_is_true(json_object_get(said, "nccl"));
    json_decref(said);
    if (p->outcome.why[0])
        give_up(p);
    else if (!ranks_count(&p->waiting))
        all_have_answered(p);
    return true;
}

static void begin_move(struct park *p, bool back)
{
    outcome_clear(&p->outcome);
    p->outcome.back = back;
    p->is_over = p->nccl = p->wanted = false;
    p->id = 0;
}

static int ask_ranks(struct park *p, const struct ranks *which, struct err *err)
{
    struct span m = { .kind = SPAN_PROBE };

    m.v[F_PROBE_WHAT].s = slice_text("park");
    m.v[F_PROBE_CONTENT].s = slice_text("{}");
    RANKS_EACH (k, which)
        if (p->nb->group->rank[k].state != RANK_IDLE)
            return err_set(err, "rank %ld is not idle", k);
    ranks_clear(&p->waiting);
    if (ranks_add_all(&p->waiting, which) < 0)
        return err_set(err, "out of memory");
    return notebook_ask_ranks(p->nb, which, &m, &p->id, err);
}

void park_begin(struct park *p, const struct ranks *which, uint64_t now)
{
    struct err err = { "" };

    begin_move(p, false);
    if (ranks_add_all(&p->outcome.all, which) < 0) {
        log_warn("ranks", "out of memory: idle ranks keep their GPUs");
        p->id = 0;
    } else if (ask_ranks(p, which, &err) < 0) {
        blame(p, "%s", err.text);
        give_up(p);
    } else {
        event(p, which, PARKING_IDLE);
        p->due_ns = now + ANSWER_NS;
    }
}

/* ---- back ---- */

static bool some_move(const struct park *p)
{
    const struct group *g = p->nb->group;

    for (unsigned k = 0; k < g->size; k++)
        if (parking_moves(g->rank[k].parking))
            return true;
    return false;
}

bool park_some_away(const struct park *p)
{
    const struct group *g = p->nb->group;

    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].parking == PARKING_AWAY)
            return true;
    return false;
}

long park_node(const struct park *p)
{
    const struct group *g = p->nb->group;
    long node = -1;

    for (unsigned k = 0; k < g->size; k++) {
        if (!rank_alive(&g->rank[k]))
            continue;
        if (node >= 0 && node != (long)g->rank[k].node)
            return -1;
        node = (long)g->rank[k].node;
    }
    return node;
}

void park_return(struct park *p, bool wait)
{
    const struct group *g = p->nb->group;
    struct err err = { "" };
    int rc = 0;

    if ((p->wanted = some_move(p)))
        return;
    begin_move(p, true);
    for (unsigned k = 0; rc == 0 && k < g->size; k++)
        if (g->rank[k].parking == PARKING_AWAY)
            rc = ranks_add(&p->outcome.all, k);
    if (rc < 0)
        blame(p, "out of memory");
    else if (tell_agents(p, wait ? PARK_BACK | PARK_WAIT : PARK_BACK, PARKING_WANTED, &err) < 0)
        blame(p, "%s", err.text);
    if (p->outcome.why[0])
        finish(p);
}

bool park_is_wanted(const struct park *p)
{
    return p->wanted;
}

bool park_asks(const struct park *p)
{
    return p->due_ns != NEVER;
}

bool park_interrupt(struct park *p)
{
    if (park_asks(p)) {
        event(p, &p->outcome.all, PARKING_WANTED);
        p->id = 0;
        p->due_ns = NEVER;
    }
    return some_move(p);
}

/* ---- what agents say ---- */

/* What the agent says of this rank; NULL: nothing. */
static const char *said_of(const json_t *states, const struct rank *r)
{
    const json_t *one;
    size_t k;

    json_array_foreach (states, k, one)
        if (json_integer_value(json_array_get(one, 0)) == (json_int_t)r->worker)
            return json_string_value(json_array_get(one, 1));
    return NULL;
}

static void take_state(struct park *p, struct rank *r, const char *said)
{
    const enum parking_event e = parking_read(said);
    const enum parking_result result = parking_result(p->outcome.back, e);
    int rc = 0;

    r->parking = parking_next(r->parking, e);
    if (result != PARKING_STAYED)
        rc = ranks_add(result == PARKING_LOST ? &p->outcome.lost : &p->outcome.moved, r->number);
    if (rc < 0)
        log_warn("ranks", "out of memory: what has become of rank %u is not said", r->number);
}

static void note_queue(struct park_outcome *o, const json_t *queue)
{
    const char *why = text_field(queue, "why");
    const size_t at = strlen(o->why);

    if (!json_is_object(queue))
        return;
    o->queued = true;
    o->ahead = (unsigned)json_integer_value(json_object_get(queue, "ahead"));
    snprintf(o->stuck, sizeof o->stuck, "%s", text_field(queue, "stuck"));
    if (why[0])
        snprintf(o->why + at, sizeof o->why - at, "%s%s", at ? "; " : "", why);
}

void park_on_parked(struct park *p, unsigned node, const struct span *m)
{
    struct rank *const rank = p->nb->group->rank;
    json_t *said;

    if (!p->id || m->cell != p->id)
        return;
    said = text_parse(m->v[F_PARK_SAID].s);
    if (text_field(said, "why")[0])
        blame(p, "%s", text_field(said, "why"));
    p->outcome.held = p->outcome.held || json_is_true(json_object_get(said, "held"));
    note_queue(&p->outcome, json_object_get(said, "queue"));
    RANKS_EACH (k, &p->outcome.all)
        if (rank[k].node == node && parking_moves(rank[k].parking))
            take_state(p, &rank[k], said_of(json_object_get(said, "workers"), &rank[k]));
    json_decref(said);
}

const struct park_outcome *park_over(struct park *p)
{
    if (p->id && p->due_ns == NEVER && !some_move(p))
        finish(p);
    if (!p->is_over)
        return NULL;
    p->is_over = false;
    return &p->outcome;
}

uint64_t park_due(const struct park *p)
{
    return p->due_ns;
}

void park_tick(struct park *p, uint64_t now)
{
    if (now < p->due_ns)
        return;
    blame(p, "rank %ld does not answer", ranks_next(&p->waiting, 0));
    give_up(p);
}
