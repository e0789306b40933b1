/* SPDX-License-Identifier: BSD-3-Clause */
/* The debuggers of workers: what is sent to them, and their events. */
#include "kernel/debug/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* When several ranks stop, JupyterLab shows the last one. So clients get the first rank's event
 * again after all have stopped. */
#define RESTATE_NS (100 * NS_PER_MS)
/* A rank that steps stays first for this long, while it runs. */
#define STEP_NS NS_PER_S

struct debug_session *session_of(const struct debug *d, uint32_t worker)
{
    struct debug_session *s = d->sessions;

    while (s && s->worker != worker)
        s = s->next;
    return s;
}

struct debug_session *session_of_slot(const struct debug *d, long slot)
{
    struct debug_session *s = d->sessions;

    while (s && (long)s->slot != slot)
        s = s->next;
    return s;
}

static bool is_before(const struct debug *d, const struct debug_session *a,
                      const struct debug_session *b)
{
    if (!b || (a->rank == d->chosen) != (b->rank == d->chosen))
        return !b || a->rank == d->chosen;
    return a->order < b->order;
}

struct debug_session *session_focus(const struct debug *d)
{
    struct debug_session *first = NULL;

    for (struct debug_session *s = d->sessions; s; s = s->next)
        if (s->stopped && is_before(d, s, first))
            first = s;
    return first ? first : d->sessions;
}

bool session_knows(const struct debug_session *s)
{
    return s->attached || s->attaching;
}

const char *session_name(const struct debug_session *s, char out[static 32])
{
    if (s->rank == DEBUG_HOME)
        return "home";
    snprintf(out, 32, "rank %ld", s->rank);
    return out;
}

uint64_t session_ask(struct debug *d, struct debug_session *s, const char *command,
                     json_t *arguments)
{
    const uint64_t seq = ++d->seq;
    json_t *message = json_pack("{s:s, s:I, s:s, s:o}", "type", "request", "seq", (json_int_t)seq,
                                "command", command, "arguments", arguments);
    const int rc = message ? d->ops.send(d->ops.arg, s->worker, message) : -1;

    json_decref(message);
    return rc == 0 ? seq : 0;
}

uint64_t session_attach(struct debug *d, struct debug_session *s)
{
    json_t *arguments = d->attach ? json_deep_copy(d->attach) : json_object(),
           *requests = json_array(), *request;
    const char *name;

    json_object_foreach (d->breaks, name, request)
        json_array_append(requests, request);
    json_object_set_new(arguments, "cellspan",
                        json_pack("{s:s, s:O, s:o}", "prefix", d->prefix, "initialize",
                                  d->initialize, "requests", requests));
    return session_ask(d, s, "attach", arguments);
}

/* ---- events ---- */

void session_runs(struct debug *d, struct debug_session *s)
{
    json_decref(s->stopped);
    s->stopped = NULL;
    if (d->shown == s)
        d->shown = NULL;
}

static void stopped(struct debug *d, struct debug_session *s, json_t *event, uint64_t now)
{
    json_t *body = json_object_get(event, "body");

    json_object_set_new(body, "allThreadsStopped", json_false());
    if (s->rank != DEBUG_HOME) /* clients know the numbers that home gave to breakpoints */
        json_object_del(body, "hitBreakpointIds");
    ids_out(event, s->slot);
    if (!s->steps || !s->order)
        s->order = ++d->order;
    s->steps = false;
    session_runs(d, s);
    s->stopped = json_incref(event);
    d->ops.event(d->ops.arg, event);
    d->shown = s;
    if (session_focus(d) != s)
        d->restate_ns = now + RESTATE_NS;
}

static void continued(struct debug *d, struct debug_session *s, json_t *event, uint64_t now)
{
    if (!s->stopped) { /* clients would forget which one is stopped */
        json_decref(event);
        return;
    }
    json_object_set_new(json_object_get(event, "body"), "allThreadsContinued", json_false());
    ids_out(event, s->slot);
    session_runs(d, s);
    d->shown = NULL; /* JupyterLab shows nobody now */
    d->ops.event(d->ops.arg, event);
    d->restate_ns = now + (s->steps ? STEP_NS : RESTATE_NS);
}

/* Clients need to know little of ranks' processes: not that they began, for instance. */
static bool passes(const struct debug_session *s, const char *type)
{
    return s->rank == DEBUG_HOME || strcmp(type, "thread") == 0 || strcmp(type, "output") == 0;
}

void session_event(struct debug *d, struct debug_session *s, json_t *event, uint64_t now)
{
    const char *type = json_string_value(json_object_get(event, "event"));

    if (!json_is_object(json_object_get(event, "body")))
        json_object_set_new(event, "body", json_object());
    json_object_set_new(event, "seq", json_integer((json_int_t)++d->seq));
    if (!type || (strcmp(type, "stopped") && strcmp(type, "continued") && !passes(s, type))) {
        json_decref(event);
    } else if (strcmp(type, "stopped") == 0) {
        stopped(d, s, event, now);
    } else if (strcmp(type, "continued") == 0) {
        continued(d, s, event, now);
    } else {
        ids_out(event, s->slot);
        d->ops.event(d->ops.arg, event);
    }
}
