/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/notebook/debugger.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

/* ---- what kernel/debug/ calls ---- */

static int op_send(void *arg, uint32_t worker, const json_t *message)
{
    struct notebook *nb = arg;
    struct span m = { .kind = SPAN_DEBUG, .worker = worker };
    struct buf text = BUF_INIT;
    int rc;

    if (!notebook_has_room(nb, worker, nb->cells ? nb->rank_parent : nb->home.parent))
        return -1;
    rc = text_json(&text, json_incref((json_t *)message));
    m.v[F_DEBUG_MESSAGE].s = buf_slice(&text);
    if (rc == 0)
        rc = notebook_send_to(nb, &worker, 1, &m, NULL);
    buf_release(&text);
    return rc;
}

static void op_event(void *arg, json_t *event)
{
    struct notebook *nb = arg;

    publish_json(nb, nb->debugger->parent, "debug_event", event);
}

static void op_begin(void *arg, void *request)
{
    struct notebook *nb = arg;

    nb->ops.status(nb->ops.arg, request, "busy");
}

static void op_reply(void *arg, void *request, json_t *content)
{
    struct notebook *nb = arg;

    reply_json(nb, request, "debug_reply", content);
    nb->ops.status(nb->ops.arg, request, "idle");
    request_unref(request);
}

static void op_note(void *arg, const char *text)
{
    struct notebook *nb = arg;
    struct buf line = BUF_INIT;

    if (buf_addf(&line, "cellspan: %s\n", text) == 0)
        publish_stream(nb, nb->cells ? nb->rank_parent : nb->home.parent, 2, buf_slice(&line));
    buf_release(&line);
}

/* ---- requests and messages ---- */

static bool open(struct notebook *nb)
{
    const struct debug_ops ops = { nb, op_send, op_event, op_begin, op_reply, op_note };
    char prefix[64];

    if (nb->debugger)
        return true;
    snprintf(prefix, sizeof prefix, "/tmp/cellspan_%.32s/", nb->config.run_id);
    if (!(nb->debugger = calloc(1, sizeof *nb->debugger)))
        return false;
    nb->debugger->since_ns = NEVER;
    if ((nb->debugger->front = debug_create(&ops, prefix)))
        return true;
    free(nb->debugger);
    nb->debugger = NULL;
    return false;
}

static void join_group(struct notebook *nb, const struct group *g)
{
    for (unsigned k = 0; g && k < g->size; k++)
        if (g->rank[k].worker && g->rank[k].state != RANK_STARTING)
            debug_join(nb->debugger->front, g->rank[k].worker, (long)g->rank[k].number);
}

void debugger_request(struct notebook *nb, struct request *r)
{
    if (nb->home.no_debugger || !open(nb)) {
        nb->ops.status(nb->ops.arg, r, "busy");
        reply_json(nb, r, "debug_reply", json_object());
        nb->ops.status(nb->ops.arg, r, "idle");
        return;
    }
    debug_join(nb->debugger->front, SPAN_WORKER_HOME, DEBUG_HOME);
    join_group(nb, nb->group);
    join_group(nb, nb->script_group);
    request_unref(nb->debugger->parent);
    nb->debugger->parent = request_ref(r);
    debug_request(nb->debugger->front, request_ref(r), request_content(r), notebook_now(nb));
}

/* Call it after all that may stop or continue a worker. */
static uint64_t update_stopped(struct notebook *nb)
{
    struct debugger *d = nb->debugger;
    const uint64_t since = d->since_ns, now = notebook_now(nb);
    const bool stopped = debug_is_stopped(d->front);

    d->released = d->released && stopped;
    if (stopped && !d->released) {
        d->since_ns = since == NEVER ? now : since;
        return 0;
    }
    d->since_ns = NEVER;
    return since == NEVER ? 0 : now - since;
}

uint64_t debugger_message(struct notebook *nb, uint32_t worker, const struct span *m)
{
    json_t *message = nb->debugger ? text_parse(m->v[F_DEBUGGED_MESSAGE].s) : NULL;

    if (!message)
        return 0;
    debug_message(nb->debugger->front, worker, message, notebook_now(nb));
    return update_stopped(nb);
}

void debugger_join(struct notebook *nb, const struct rank *r)
{
    if (nb->debugger && debug_is_attached(nb->debugger->front))
        debug_join(nb->debugger->front, r->worker, (long)r->number);
}

void debugger_join_home(struct notebook *nb)
{
    if (nb->debugger && debug_is_attached(nb->debugger->front))
        debug_join(nb->debugger->front, SPAN_WORKER_HOME, DEBUG_HOME);
}

uint64_t debugger_gone(struct notebook *nb, uint32_t worker)
{
    if (!nb->debugger)
        return 0;
    debug_gone(nb->debugger->front, worker, notebook_now(nb));
    return update_stopped(nb);
}

uint64_t debugger_tick(struct notebook *nb)
{
    if (!nb->debugger)
        return 0;
    debug_tick(nb->debugger->front, notebook_now(nb));
    return update_stopped(nb);
}

uint64_t debugger_due(const struct notebook *nb)
{
    return nb->debugger ? debug_due(nb->debugger->front) : NEVER;
}

bool debugger_stops(const struct notebook *nb)
{
    return nb->debugger && nb->debugger->since_ns != NEVER;
}

bool debugger_is_stopped(const struct notebook *nb, uint32_t worker)
{
    return nb->debugger && debug_stands(nb->debugger->front, worker);
}

void debugger_cell(struct notebook *nb, const struct group *g, const struct ranks *to,
                   uint64_t cell, struct slice text)
{
    if (!nb->debugger || !debug_is_attached(nb->debugger->front))
        return;
    for (unsigned k = 0; k < g->size; k++)
        if (g->rank[k].worker && ranks_has(to, g->rank[k].number))
            debug_cell(nb->debugger->front, g->rank[k].worker, cell, text);
}

/* ---- interrupts ---- */

uint64_t debugger_interrupt(struct notebook *nb)
{
    if (!nb->debugger)
        return 0;
    debug_release(nb->debugger->front);
    nb->debugger->released = true;
    return update_stopped(nb);
}

int debugger_command(struct notebook *nb, const char *rank, struct err *err)
{
    if (!nb->debugger || !debug_is_attached(nb->debugger->front))
        return err_set(err, "%%ranks debug: no debugger is switched on; the page's Enable Debugger "
                            "must be set first");
    if (!rank && debug_continue(nb->debugger->front) == 0)
        return err_set(err,
                       "%%ranks debug: neither a rank nor home is stopped at a breakpoint; set "
                       "one in a cell that runs");
    if (rank && debug_choose(nb->debugger->front, strtol(rank, NULL, 10)) < 0)
        return err_set(err, "%%ranks debug: there is no rank %s that runs", rank);
    return 0;
}

void debugger_release(struct notebook *nb)
{
    if (!nb->debugger)
        return;
    debug_destroy(nb->debugger->front);
    request_unref(nb->debugger->parent);
    free(nb->debugger);
    nb->debugger = NULL;
}
