/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends home the result of a cell that succeeded: a value, a handle or pulled values. Shows clients
 * the result. */
#include "kernel/cell/cell_runs.h"

/* If the cell has failed, nobody waits for its blobs, so transfers that have begun stop. */
void bind_drop_blobs(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++) {
        if (c->bad && c->member[k].blob)
            c->nb->ops.cancel(c->nb->ops.arg, c->member[k].blob);
        else
            notebook_drop(c->nb, c->member[k].blob);
        c->member[k].blob = 0;
    }
}

/* -1: the cell has failed. */
static int bind_home(struct cell *c, const struct member *m, unsigned how, const char *name,
                     unsigned count)
{
    struct span b = { .kind = SPAN_BIND,
                      .worker = SPAN_WORKER_HOME,
                      .cell = c->id,
                      .blob = m->blob,
                      .blob_size = m->blob_size };

    b.v[F_BIND_VALUE].s = slice_of(m->value, m->value_size);
    b.v[F_BIND_NAMES].s = slice_text(name);
    b.v[F_BIND_HOW].u64 = how;
    b.v[F_BIND_COUNT].u64 = count;
    c->bind.waiting++;
    return cell_send_home(c, &b);
}

/* The value was not sent: home gets a handle instead, which shows the rank's repr and whose pull()
 * fetches the value. */
static void bind_handle(struct cell *c, const struct member *m)
{
    const json_t *data = json_object_get(m->result, "data");

    c->bind.waiting++;
    (void)cell_ask_home(c, "cellspan_handle",
                        json_pack("{s:i, s:o, s:s, s:i, s:s*}", "rank", (int)m->rank, "repr",
                                  text_joined("", text_slice(data, "text/plain")), "why", m->note,
                                  "count", (int)c->from.count, "into", c->plan.into),
                        0);
}

/* The note of a rank's answer to %pull begins with the name that can't be sent. */
static void refuse_unsent(struct cell *c, const struct member *m)
{
    const char *why = m->note ? m->note : "the rank sent none";

    if (c->plan.kind == PLAN_PULL && m->note)
        cell_fail(c, "RuntimeError", "rank %u's %s%s", m->rank, m->note,
                  c->plan.names[1] ? "; nothing was bound" : "");
    else
        cell_fail(c, "RuntimeError", "rank %u's %s can't be sent home: %s", m->rank,
                  c->plan.kind == PLAN_PULL ? "value" : "result", why);
}

static bool all_sent(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (!c->member[k].blob && !c->member[k].value) {
            refuse_unsent(c, &c->member[k]);
            return false;
        }
    return true;
}

/* how: the last BIND's. BIND_LAST and BIND_LISTS bind lists of all ranks' values, the others bind
 * the first rank's value. */
static void bind_all(struct cell *c, unsigned how, const char *names, unsigned count)
{
    const size_t n = how == BIND_LAST || how == BIND_LISTS ? c->n : 1;

    if (!all_sent(c))
        return;
    for (size_t k = 0; k < n; k++)
        if (bind_home(c, &c->member[k], k + 1 == n ? how : BIND_MORE, names, count) < 0)
            return;
}

static void bind_pulled(struct cell *c)
{
    const bool values = run_pulls_values(c);
    struct buf names = BUF_INIT;

    if (c->stop.interrupts)
        cell_fail(c, "KeyboardInterrupt", "nothing was bound");
    else if (c->plan.into)
        bind_all(c, values ? BIND_VALUE : BIND_LAST, c->plan.into, 0);
    else if (run_add_pulled(c, &names) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
    else
        bind_all(c, values ? BIND_DICT : BIND_LISTS, names.p, 0);
    buf_release(&names);
}

bool bind_return_has_values(const struct cell *c)
{
    const size_t n = !cell_is_function(c) || c->bad ? 0 : c->plan.gather ? c->n : c->n > 0;

    for (size_t k = 0; k < n; k++)
        if (!c->member[k].value)
            return false;
    return n > 0;
}

static void bind_result(struct cell *c)
{
    const struct member *lead = &c->member[0];
    /* the value of a call goes to its caller, not to `_` */
    const unsigned count = c->from.is_call ? 0 : c->from.count;
    const char *into = c->plan.into ? c->plan.into : "";

    if (c->plan.gather && !bind_return_has_values(c))
        bind_all(c, BIND_LAST, into, count);
    else if ((c->plan.into || cell_is_function(c)) && !lead->blob && !lead->value)
        refuse_unsent(c, lead);
    else if (lead->blob && (count || into[0]))
        (void)bind_home(c, lead, BIND_VALUE, into, count);
    else if (lead->result && lead->note && c->from.is_call)
        output_note(c, "rank %u's value can't be sent home: %s", lead->rank, lead->note);
    else if (lead->result && lead->note && !cell_own_group(c)) /* else the value is gone */
        bind_handle(c, lead);
}

/* Home evaluates user_expressions after the cell: it is asked to run an empty silent cell. */
static void ask_expressions(struct cell *c)
{
    json_t *wanted = c->from.is_call
                         ? NULL
                         : json_object_get(request_content(c->from.request), "user_expressions");

    if (json_object_size(wanted) == 0)
        return;
    c->bind.waiting++;
    (void)cell_ask_home(c, "execute_request",
                        json_pack("{s:s, s:b, s:O}", "code", "", "silent", 1, "user_expressions",
                                  wanted),
                        REQUEST_SILENT);
}

/* ---- the result ---- */

static void show_result(struct cell *c, const json_t *bundle)
{
    const json_t *data = json_object_get(bundle, "data"),
                 *metadata = json_object_get(bundle, "metadata");

    if (!json_object_size(data) || !cell_is_published(c))
        return;
    output_flush(c);
    publish_json(c->nb, c->from.request, "execute_result",
                 json_pack("{s:i, s:O, s:o}", "execution_count", (int)c->from.count, "data", data,
                           "metadata",
                           json_is_object(metadata) ? json_deep_copy(metadata) : json_object()));
}

static void bind_begin(struct cell *c)
{
    if (c->plan.kind == PLAN_PULL)
        bind_pulled(c);
    else if (c->plan.kind != PLAN_PUSH && !(c->from.call_flags & CALL_OUTLIVES))
        bind_result(c);
    if (!c->bad)
        ask_expressions(c);
    if (!c->bad && !c->plan.gather && c->plan.kind != PLAN_PULL && c->n)
        show_result(c, c->member[0].result);
}

static enum cell_outcome bind_poll(struct cell *c)
{
    return c->bind.waiting ? CELL_STAYS : CELL_DONE;
}

static void say_lines(struct cell *c, const json_t *lines)
{
    json_t *line;
    size_t k;

    json_array_foreach (lines, k, line)
        output_note(c, "%s", json_is_string(line) ? json_string_value(line) : "");
}

static void bind_reply(struct cell *c, const struct span *reply, const json_t *content)
{
    json_t *expressions = json_object_get(content, "user_expressions");
    const bool is_bind = json_object_size(expressions) == 0;

    if (c->bind.waiting == 0)
        return;
    c->bind.waiting--;
    say_lines(c, json_object_get(content, "lines"));
    if (!is_bind) {
        json_decref(c->bind.expressions);
        c->bind.expressions = json_incref(expressions);
    }
    if (!slice_is(reply->v[F_REPLY_STATUS].s, "ok"))
        cell_fail_in_words(c, text_field(content, "ename"),
                           "home could not load the value: ", text_slice(content, "evalue"));
    else if (c->plan.gather && c->bind.waiting == 0)
        show_result(c, content);
    else if (is_bind && run_pulls_values(c) && !c->plan.into &&
             ledger_pulled(c->group, c->member[0].rank, c->plan.names) < 0)
        cell_fail(c, "RuntimeError", "out of memory");
}

const struct cell_step cell_binding = { CELL_AFTER, .begin = bind_begin, .poll = bind_poll,
                                        .reply = bind_reply };
