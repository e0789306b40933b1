/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds and removes workers, and records which of them are stopped at a breakpoint. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/murmur2.h"
#include "kernel/debug/private.h"

#define SLOTS 127u
#define TRIES                                                                                      \
    8 /* a rank that is there keeps its slot; with many ranks, no long search for a free one */

/* DAP's numbers are below 2^31, which leaves 127 slots for ranks: a slot
 * that has become free is used again as late as possible. If there are more ranks, their numbers
 * are larger. */
static unsigned next_slot(struct debug *d)
{
    for (int tries = 0; tries < TRIES; tries++) {
        const unsigned slot = d->joined++ % SLOTS + 1;

        if (!session_of_slot(d, (long)slot))
            return slot;
    }
    return SLOTS + d->joined;
}

void debug_join(struct debug *d, uint32_t worker, long rank)
{
    struct debug_session *s, **at = &d->sessions;

    if (session_of(d, worker) || !(s = calloc(1, sizeof *s)))
        return;
    s->worker = worker;
    s->rank = rank;
    s->slot = rank == DEBUG_HOME ? 0 : next_slot(d);
    while (*at && rank != DEBUG_HOME)
        at = &(*at)->next;
    s->next = *at;
    *at = s;
    if (d->attached)
        s->attaching = session_attach(d, s);
}

void debug_gone(struct debug *d, uint32_t worker, uint64_t now)
{
    struct debug_session **at = &d->sessions, *s;

    while (*at && (*at)->worker != worker)
        at = &(*at)->next;
    if (!(s = *at))
        return;
    *at = s->next;
    if (s->stopped || s->attached) {
        json_t *body = json_pack("{s:I, s:b}", "threadId", id_out(s->main, s->slot),
                                 "allThreadsContinued", 0);

        if (s->stopped)
            d->ops.event(d->ops.arg,
                         json_pack("{s:s, s:I, s:s, s:O}", "type", "event", "seq",
                                   (json_int_t)++d->seq, "event", "continued", "body", body));
        json_object_set_new(body, "reason", json_string("exited"));
        d->ops.event(d->ops.arg, json_pack("{s:s, s:I, s:s, s:o}", "type", "event", "seq",
                                           (json_int_t)++d->seq, "event", "thread", "body", body));
        d->restate_ns = now;
    }
    session_runs(d, s);
    if (s->asked && d->active.of && --d->active.waiting == 0)
        debug_end_request(d);
    free(s);
    debug_next(d, now);
}

json_t *worker_file_name(const struct debug *d, struct slice text)
{
    return json_sprintf("%s%u.py", d->prefix, murmur2(text, MURMUR2_SEED));
}

/* ---- state ---- */

bool debug_is_attached(const struct debug *d)
{
    return d->attached;
}

bool debug_is_stopped(const struct debug *d)
{
    for (const struct debug_session *s = d->sessions; s; s = s->next)
        if (s->stopped)
            return true;
    return false;
}

bool debug_stands(const struct debug *d, uint32_t worker)
{
    const struct debug_session *s = session_of(d, worker);

    return s && s->stopped;
}

void debug_cell(struct debug *d, uint32_t worker, uint64_t cell, struct slice text)
{
    struct debug_session *s = session_of(d, worker);

    if (s && d->attached)
        (void)session_ask(d, s, "cell",
                          json_pack("{s:I, s:o}", "cell", (json_int_t)cell, "path",
                                    worker_file_name(d, text)));
}

void debug_release(struct debug *d)
{
    const bool stopped = debug_is_stopped(d);

    for (struct debug_session *s = d->sessions; s; s = s->next)
        if (s->attaching || (s->attached && stopped))
            (void)session_ask(d, s, "release", json_object());
}

size_t debug_continue(struct debug *d)
{
    size_t n = 0;

    for (struct debug_session *s = d->sessions; s; s = s->next)
        n += s->stopped && session_ask(d, s, "continue", json_pack("{s:s}", "threadId", "*")) != 0;
    return n;
}

int debug_choose(struct debug *d, long rank)
{
    for (struct debug_session *s = d->sessions; s; s = s->next)
        if (s->rank == rank) {
            d->chosen = rank;
            d->restate_ns = 0;
            return 0;
        }
    return -1;
}
