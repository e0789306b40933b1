/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of prompts (input(), getpass, debuggers). The client shows one prompt at a time, until
 * it is answered or its process takes it back. The others wait: home's first, then the ranks' in
 * order of rank. */
#include <stdlib.h>

#include "base/log.h"
#include "kernel/cell/prompts.h"

/* A prompt waits this long for lower ranks, which may ask too, for example in a debugger. */
#define LOWER_NS (100 * NS_PER_MS)
#define NO_LINE  "\x04" /* this answer makes input() raise EOFError */

struct prompt {
    struct prompt *next;
    uint32_t worker;
    uint64_t id;       /* the worker's number for it */
    long rank;         /* -1: home */
    struct request *r; /* owned reference: the cell under which it is shown */
    struct buf text;   /* owned */
    bool password;
    bool shown; /* only the first one can be */
};

static void prompt_free(struct prompt *p)
{
    buf_release(&p->text);
    request_unref(p->r);
    free(p);
}

/* It has left the queue. */
static void prompt_end(struct notebook *nb, struct prompt *p)
{
    if (p->shown)
        nb->ops.ask(nb->ops.arg, NULL, slice_text(""), false);
    prompt_free(p);
}

static void show(struct notebook *nb, struct prompt *p)
{
    struct cell *c = cell_on(nb, p->worker);

    if (p->rank < 0)
        home_flush(nb);
    else if (c)
        output_flush(c);
    p->shown = true;
    nb->ops.ask(nb->ops.arg, p->r, buf_slice(&p->text), p->password);
}

/* Must p wait? Prompts of lower ranks may still come, or p is about to be taken back. */
static bool must_wait(const struct notebook *nb, const struct prompt *p)
{
    const struct cell *c = cell_on(nb, p->worker);

    if (p->rank < 0 || !c)
        return false;
    for (size_t k = 0; k < c->n && (long)c->member[k].rank < p->rank; k++)
        if (c->member[k].state == MEMBER_RUNNING)
            return true;
    return c->stop.stopping;
}

static bool is_to_end(const struct notebook *nb, const struct prompt *p)
{
    const struct cell *c = p->rank >= 0 ? cell_on(nb, p->worker) : NULL;

    return c && c->stop.stopping;
}

/* pdb ends only its current command if an interrupt comes between two prompts, and then asks again.
 * So it gets another interrupt. */
static void end_first(struct notebook *nb)
{
    struct prompt *p = nb->prompts.first;
    const struct cell *c = cell_on(nb, p->worker);
    struct span m = { .kind = SPAN_INTERRUPT, .worker = p->worker, .cell = c->id };

    nb->prompts.first = p->next;
    notebook_send(nb, p->worker, &m);
    prompt_free(p);
}

/* Moves the first prompt whose answer may be sent to the front. false: there is none; a timer tries
 * again. */
static bool bring_forward(struct notebook *nb)
{
    struct prompt **at = &nb->prompts.first, *p;

    while ((p = *at) && notebook_full_node(nb, notebook_node_of(nb, p->worker)))
        at = &p->next;
    if (!p) {
        nb->prompts.due_ns = notebook_now(nb) + NOTEBOOK_ROOM_NS;
        return false;
    }
    *at = p->next;
    p->next = nb->prompts.first;
    nb->prompts.first = p;
    return true;
}

void prompts_tick(struct notebook *nb)
{
    struct prompt *p = nb->prompts.first;

    if (!p || p->shown || (notebook_now(nb) < nb->prompts.due_ns && must_wait(nb, p)))
        return;
    while ((p = nb->prompts.first) && is_to_end(nb, p))
        end_first(nb);
    if (p && bring_forward(nb))
        show(nb, nb->prompts.first);
}

/* Another prompt is the first: it waits LOWER_NS for lower ranks. */
static void start_wait(struct notebook *nb)
{
    nb->prompts.due_ns = notebook_now(nb) + LOWER_NS;
    prompts_tick(nb);
}

static void reply(struct notebook *nb, uint32_t worker, uint64_t id, struct slice value)
{
    struct span m = { .kind = SPAN_INPUT_REPLY, .worker = worker };

    m.v[F_INPUT_REPLY_VALUE].s = value;
    m.v[F_INPUT_REPLY_ID].u64 = id;
    notebook_send(nb, worker, &m);
}

/* Inserts p after the shown prompt and after the prompts of its own and of lower ranks. */
static void insert(struct notebook *nb, struct prompt *p)
{
    struct prompt **at = &nb->prompts.first;

    while (*at && ((*at)->shown || (*at)->rank <= p->rank))
        at = &(*at)->next;
    p->next = *at;
    *at = p;
    if (nb->prompts.first == p)
        start_wait(nb);
}

void prompts_add(struct notebook *nb, const struct request *r, uint32_t worker, long rank,
                 bool labelled, const struct span *m)
{
    struct prompt *p = calloc(1, sizeof *p);

    if (!p || (labelled && buf_addf(&p->text, "[%ld] ", rank) < 0) ||
        buf_add_slice(&p->text, m->v[F_INPUT_PROMPT].s) < 0) {
        log_error("prompts", "out of memory: input() gets no line");
        if (p)
            prompt_free(p);
        reply(nb, worker, m->v[F_INPUT_ID].u64, slice_text(NO_LINE));
        return;
    }
    p->worker = worker;
    p->id = m->v[F_INPUT_ID].u64;
    p->rank = rank;
    p->r = request_ref((struct request *)r);
    p->password = m->v[F_INPUT_PASSWORD].u64 != 0;
    insert(nb, p);
}

/* Which prompts are removed? */
struct unwanted {
    const struct cell *cell; /* those of all its ranks; NULL: those of `worker` */
    uint32_t worker;
    const uint64_t *id; /* only this one; NULL: all */
    bool ended;         /* only those of cells that have ended */
};

static bool runs(const struct notebook *nb, const struct request *r)
{
    for (const struct asked *a = nb->home.asked; a; a = a->next)
        if (a->execute && a->r == r)
            return true;
    return false;
}

static bool is_unwanted(const struct notebook *nb, const struct unwanted *u, const struct prompt *p)
{
    if (u->cell)
        return p->rank >= 0 && cell_worker(u->cell, p->worker);
    return p->worker == u->worker && (!u->id || p->id == *u->id) && !(u->ended && runs(nb, p->r));
}

static void drop_unwanted(struct notebook *nb, struct unwanted u)
{
    const struct prompt *first = nb->prompts.first;

    for (struct prompt **at = &nb->prompts.first; *at;) {
        struct prompt *p = *at;

        if (is_unwanted(nb, &u, p)) {
            *at = p->next;
            prompt_end(nb, p);
        } else
            at = &p->next;
    }
    if (nb->prompts.first != first)
        start_wait(nb);
    else
        prompts_tick(nb); /* a rank that has ended can't ask first any more */
}

void prompts_drop_one(struct notebook *nb, uint32_t worker, const struct span *m)
{
    drop_unwanted(nb, (struct unwanted){ .worker = worker, .id = &m->v[F_INPUT_ID].u64 });
}

void prompts_drop_worker(struct notebook *nb, uint32_t worker)
{
    drop_unwanted(nb, (struct unwanted){ .worker = worker });
}

void prompts_drop_ended(struct notebook *nb)
{
    drop_unwanted(nb, (struct unwanted){ .worker = SPAN_WORKER_HOME, .ended = true });
}

void prompts_drop_cell(const struct cell *c)
{
    drop_unwanted(c->nb, (struct unwanted){ .cell = c });
}

void prompts_answer(struct notebook *nb, struct request *r)
{
    struct prompt *p = nb->prompts.first;

    /* another client was asked earlier, by a cell that is over */
    if (!p || !p->shown || !request_same_client(p->r, r))
        return;
    nb->prompts.first = p->next;
    reply(nb, p->worker, p->id, text_slice(request_content(r), "value"));
    prompt_end(nb, p);
    start_wait(nb);
}

bool prompts_wait(const struct cell *c)
{
    for (const struct prompt *p = c->nb->prompts.first; p; p = p->next)
        if (p->rank < 0 || cell_worker(c, p->worker))
            return true;
    return false;
}

uint64_t prompts_due(const struct notebook *nb)
{
    return nb->prompts.first && !nb->prompts.first->shown ? nb->prompts.due_ns : NEVER;
}

void prompts_release(struct notebook *nb)
{
    struct prompt *p;

    while ((p = nb->prompts.first)) {
        nb->prompts.first = p->next;
        prompt_free(p);
    }
}
