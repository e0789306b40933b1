/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a cell on ranks: its error, and the reply to the client or to home. */
#include <inttypes.h>
#include <stdlib.h>

#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_runs.h"
#include "kernel/cell/cell_stops.h"
#include "kernel/cell/error_text.h"
#include "kernel/cell/live_status.h"
#include "kernel/status/status_table.h"

static json_t *reply_content(const struct cell *c)
{
    json_t *content = c->fault.shown ? json_deep_copy(c->fault.shown)
                      : c->bad       ? json_loads(NO_MEMORY, 0, NULL)
                                     : json_object();

    json_object_set_new(content, "status", json_string(c->bad ? "error" : "ok"));
    json_object_set_new(content, "execution_count", json_integer(c->from.count));
    json_object_set_new(content, "user_expressions",
                        c->bind.expressions ? json_incref(c->bind.expressions) : json_object());
    json_object_set_new(content, "payload", json_array());
    return content;
}

static void value_of_return(const struct cell *c, struct span *m)
{
    if (c->bad || !c->n || !(c->from.call_flags & CALL_VALUE) || !c->planned || c->plan.gather ||
        c->plan.into || c->plan.kind == PLAN_PULL) /* home has bound what it pulled */
        return;
    m->blob = c->member[0].blob;
    m->blob_size = c->member[0].blob_size;
}

/* Small values of ranks. items: the caller's, to be freed. -1: memory is out. */
static int values_of_return(const struct cell *c, struct slice **items, struct span *m)
{
    const size_t n = !bind_return_has_values(c) ? 0 : c->plan.gather ? c->n : 1;

    if (n && !(*items = calloc(n, sizeof **items)))
        return -1;
    for (size_t k = 0; k < n; k++)
        (*items)[k] = slice_of(c->member[k].value, c->member[k].value_size);
    m->v[F_RETURN_VALUES].list = (struct span_list){ *items, n };
    return 0;
}

/* If memory is out or the content is too long, it has an error only. */
static void send_return(struct cell *c)
{
    const uint32_t home = SPAN_WORKER_HOME;
    struct span m = { .kind = SPAN_RETURN, .worker = SPAN_WORKER_HOME, .cell = c->from.asker };
    struct slice *items = NULL;
    struct buf text = BUF_INIT;
    json_t *content;

    c->bad = values_of_return(c, &items, &m) < 0 || c->bad;
    content = reply_content(c);
    if (c->magic.table)
        json_object_update(content, c->magic.table);
    if (c->planned && c->plan.gather && !c->bad && !items)
        json_object_set_new(content, "gathered", json_integer((json_int_t)c->id));
    if (c->planned && c->plan.into && c->plan.kind == PLAN_DISTRIBUTE && !c->bad)
        json_object_set_new(content, "into", json_string(c->plan.into));
    value_of_return(c, &m);
    m.v[F_RETURN_CALL].u64 = c->from.call;
    m.v[F_RETURN_STATUS].s = slice_text(c->bad ? "error" : "ok");
    if (text_json(&text, content) == 0)
        m.v[F_RETURN_CONTENT].s = buf_slice(&text);
    else
        m.v[F_RETURN_CONTENT].s = slice_text(NO_MEMORY);
    if (notebook_send_to(c->nb, &home, 1, &m, NULL) < 0) {
        m.v[F_RETURN_STATUS].s = slice_text("error");
        m.v[F_RETURN_CONTENT].s = slice_text(NO_MEMORY);
        notebook_send(c->nb, SPAN_WORKER_HOME, &m);
    }
    buf_release(&text);
    free(items);
}

/* Does its end abort the cells that its client has sent after it? */
static bool is_aborting(const struct cell *c)
{
    return c->bad && request_flag(c->from.request, "stop_on_error", true);
}

static void send_reply(struct cell *c)
{
    const bool aborts = is_aborting(c);

    if (aborts)
        queue_drain_shell(c->nb);
    reply_json(c->nb, c->from.request, "execute_reply", reply_content(c));
    c->nb->ops.status(c->nb->ops.arg, c->from.request, "idle");
    output_limit_reset(c->nb->output_limit);
    if (aborts)
        queue_abort(c->nb, &c->nb->queue);
}

void cell_end_beside(struct cell *c)
{
    const bool aborts = !c->from.is_call && is_aborting(c);

    output_flush(c);
    if (c->fault.whole)
        error_show(c, error_of_cell(c));
    if (aborts)
        queue_drain_shell(c->nb);
    if (c->from.is_call) {
        send_return(c);
    } else {
        reply_json(c->nb, c->from.request, "execute_reply", reply_content(c));
        c->nb->ops.status(c->nb->ops.arg, c->from.request, "idle");
    }
    if (aborts)
        queue_abort_after(c->nb, c->from.request, 0); /* when it came, none of its client waited */
}

/* Adds "3 modules". */
static void add_count(struct buf *out, uint64_t n, const char *what)
{
    if (n &&
        buf_addf(out, "%s%" PRIu64 " %s%s", out->n ? " and " : "", n, what, n == 1 ? "" : "s") < 0)
        buf_clear(out);
}

/* Says once what went to other machines. */
static void tell_sent(struct cell *c)
{
    struct buf what = BUF_INIT;
    char size[TABLE_CELL];
    struct sent_code s;

    if (!c->out.path || !finds_sent(c->nb, &s))
        return;
    write_size(size, s.bytes);
    add_count(&what, s.modules, "module");
    add_count(&what, s.files > s.modules ? s.files - s.modules : 0,
              s.modules ? "other file" : "file");
    output_news(c, "%s (%s) sent to %zu host%s", what.n ? what.p : "files", size, s.hosts,
                s.hosts == 1 ? "" : "s");
    buf_release(&what);
}

/* Interrupts home if it still works for this failed cell. */
static void stop_home(struct cell *c)
{
    const struct span m = { .kind = SPAN_INTERRUPT, .worker = SPAN_WORKER_HOME, .cell = c->id };

    if (c->prep.wants_capture || c->from.wants_line || c->send.bundles.sent < c->send.bundles.n ||
        c->bind.waiting)
        notebook_send(c->nb, SPAN_WORKER_HOME, &m);
}

/* Kills processes of the script that are left because it failed before they began to run it. */
static void kill_script(struct cell *c)
{
    const struct group *g = cell_own_group(c);
    struct ranks left = RANKS_INIT;

    for (unsigned k = 0; g && k < g->size; k++)
        if (g->rank[k].worker)
            rank_events_gone(c->nb, &g->rank[k]);
    if (cell_lingers(c) && ranks_add_range(&left, 0, cell_own_group(c)->size - 1) == 0)
        stop_signal_ranks(c->nb, cell_own_group(c), &left, 9, 0);
    ranks_release(&left);
}

/* Removes it from the cells that run. */
static void take_out(struct cell *c)
{
    struct cell **at = &c->nb->cells;

    while (*at != c)
        at = &(*at)->from.next;
    (void)cell_take_out(at);
}

static void cell_end_begin(struct cell *c)
{
    struct notebook *nb = c->nb;

    if (c->bad)
        stop_home(c);
    tell_sent(c);
    output_flush(c);
    live_end(c);
    if (c->fault.whole)
        error_show(c, error_of_cell(c));
    if (cell_is_stored(c) && !capture_is_asked(c)) /* home has not added it to its history */
        notebook_record(nb, c->id, c->from.count, slice_of(c->from.text, c->from.text_size));
    kill_script(c);
    take_out(c);
    if (cell_own_group(c))
        nb->script_group = NULL;
    request_unref(nb->rank_parent);
    nb->rank_parent = c->from.request ? request_ref(c->from.request) : NULL;
    if (!c->from.is_call)
        send_reply(c);
    else if (c->from.wants_return)
        send_return(c);
    bind_drop_blobs(c);
    compare_cancel(c);
    gpu_memory_cancel(c);
    broadcast_cancel(c);
}

const struct cell_step cell_over = { CELL_AFTER, .begin = cell_end_begin };
