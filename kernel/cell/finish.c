/* The end of a cell on ranks: its error or its result, what home is given of it, and the reply. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"

void finish_show_error(struct cell *c, json_t *error)
{
    if (!error || c->error) {
        json_decref(error);
        return;
    }
    stream_flush(c);
    c->error = error;
    /* home shows the error that RETURN brings it, in its own traceback */
    if (!c->is_call && !c->silent)
        publish_json(c->nb, c->request, "error", json_deep_copy(error));
}

/* A cell that has failed waits for none of them, and what comes after it is not to. */
static void drop_blobs(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++) {
        if (c->bad && c->member[k].blob)
            c->nb->doors.cancel(c->nb->doors.arg, c->member[k].blob);
        else
            notebook_drop(c->nb, c->member[k].blob);
        c->member[k].blob = 0;
    }
}

/* ---- what home is given ---- */

/* -1: the cell has failed. */
static int bind_home(struct cell *c, const struct member *m, unsigned how, const char *name,
                     unsigned count)
{
    struct span b = { .kind = SPAN_BIND,
                      .worker = SPAN_WORKER_HOME,
                      .cell = c->id,
                      .blob = m->blob,
                      .blob_size = m->blob_size };

    b.v[F_BIND_NAMES].s = slice_text(name);
    b.v[F_BIND_HOW].u64 = how;
    b.v[F_BIND_COUNT].u64 = count;
    c->binds++;
    return cell_send_home(c, &b);
}

/* A value that did not travel: home gets a handle that shows what the rank showed, and can be
 * pulled. */
static void bind_handle(struct cell *c, const struct member *m)
{
    struct span b = { .kind = SPAN_REQUEST,
                      .worker = SPAN_WORKER_HOME,
                      .cell = c->id,
                      .v[F_REQUEST_COUNT].u64 = c->count };
    struct buf content = BUF_INIT;
    const json_t *data = json_object_get(m->result, "data");

    if (text_json(&content, json_pack("{s:i, s:o, s:s, s:i, s:s*}", "rank", (int)m->rank, "repr",
                                      text_joined("", text_slice(data, "text/plain")), "why",
                                      m->note, "count", (int)c->count, "into", c->plan.into)) ==
        0) {
        b.v[F_REQUEST_TYPE].s = slice_text("cellspan_handle");
        b.v[F_REQUEST_CONTENT].s = buf_slice(&content);
        b.v[F_REQUEST_HEADER].s = b.v[F_REQUEST_METADATA].s = slice_text("{}");
        c->binds++;
        (void)cell_send_home(c, &b);
    }
    buf_release(&content);
}

static bool all_sent(struct cell *c)
{
    for (size_t k = 0; k < c->n; k++)
        if (!c->member[k].blob) {
            cell_fail(c, "RuntimeError", "rank %u's %s did not travel: %s", c->member[k].rank,
                      c->plan.kind == PLAN_PULL ? "value" : "result",
                      c->member[k].note ? c->member[k].note : "it sent none");
            return false;
        }
    return true;
}

/* A list by rank, or one value. */
static void bind_all(struct cell *c, const char *name, unsigned count, bool list)
{
    if (!all_sent(c))
        return;
    if (!list) {
        (void)bind_home(c, &c->member[0], BIND_VALUE, name, count);
        return;
    }
    for (size_t k = 0; k < c->n; k++)
        if (bind_home(c, &c->member[k], k + 1 == c->n ? BIND_LAST : BIND_MORE, name, count) < 0)
            return;
}

/* Of one rank all names came at once, in a dict. */
static void bind_pulled(struct cell *c)
{
    if (!fanout_pulls_values(c) || c->plan.into)
        bind_all(c, c->plan.into ? c->plan.into : c->plan.names[c->pulled], 0,
                 !fanout_pulls_values(c));
    else if (all_sent(c))
        (void)bind_home(c, &c->member[0], BIND_DICT, "", 0);
}

static void bind_result(struct cell *c)
{
    const struct member *lead = &c->member[0];
    /* the value of a call is its caller's, not `_` */
    const unsigned count = c->is_call ? 0 : c->count;
    const char *into = c->plan.into ? c->plan.into : "";

    if (c->plan.gather)
        bind_all(c, into, count, true);
    else if (c->plan.into && !lead->blob)
        all_sent(c);
    else if (lead->blob && (count || into[0]))
        (void)bind_home(c, lead, BIND_VALUE, into, count);
    else if (lead->result && lead->note && c->is_call)
        stream_note(c, "the value of rank %u did not travel: %s", lead->rank, lead->note);
    else if (lead->result && lead->note)
        bind_handle(c, lead);
}

/* user_expressions are home's, after the cell: an empty silent cell has them evaluated. */
static void ask_expressions(struct cell *c)
{
    json_t *wanted = c->is_call ? NULL
                                : json_object_get(request_content(c->request), "user_expressions");
    struct span m = { .kind = SPAN_REQUEST,
                      .worker = SPAN_WORKER_HOME,
                      .cell = c->id,
                      .v[F_REQUEST_COUNT].u64 = c->count };
    struct buf content = BUF_INIT;

    if (json_object_size(wanted) == 0)
        return;
    if (text_json(&content, json_pack("{s:s, s:b, s:O}", "code", "", "silent", 1,
                                      "user_expressions", wanted)) == 0) {
        m.v[F_REQUEST_TYPE].s = slice_text("execute_request");
        m.v[F_REQUEST_CONTENT].s = buf_slice(&content);
        m.v[F_REQUEST_HEADER].s = m.v[F_REQUEST_METADATA].s = slice_text("{}");
        m.v[F_REQUEST_FLAGS].u64 = EXECUTE_SILENT;
        c->binds++;
        (void)cell_send_home(c, &m);
    }
    buf_release(&content);
}

/* ---- the result ---- */

static void show_result(struct cell *c, const json_t *bundle)
{
    const json_t *data = json_object_get(bundle, "data"),
                 *metadata = json_object_get(bundle, "metadata");

    if (!json_object_size(data) || c->is_call || c->silent)
        return;
    stream_flush(c);
    publish_json(c->nb, c->request, "execute_result",
                 json_pack("{s:i, s:O, s:o}", "execution_count", (int)c->count, "data", data,
                           "metadata",
                           json_is_object(metadata) ? json_deep_copy(metadata) : json_object()));
}

static void succeed(struct cell *c)
{
    if (c->plan.kind == PLAN_PULL)
        bind_pulled(c);
    else if (c->plan.kind != PLAN_PUSH)
        bind_result(c);
    if (c->state == CELL_OVER)
        return;
    ask_expressions(c);
    if (c->state == CELL_OVER)
        return;
    c->state = CELL_BINDING;
    if (!c->plan.gather && c->plan.kind != PLAN_PULL && c->n)
        show_result(c, c->member[0].result);
    if (c->binds == 0)
        finish_now(c);
}

static bool somebody(const struct cell *c, enum member_state state)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == state)
            return true;
    return false;
}

/* The deaths that the error does not tell of. */
static void note_dead(struct cell *c)
{
    struct ranks dead = RANKS_INIT;
    struct buf text = BUF_INIT;

    for (size_t k = 0; k < c->n; k++)
        if (c->member[k].state == MEMBER_DEAD && !c->member[k].accused &&
            ranks_add(&dead, c->member[k].rank) < 0)
            break;
    if (ranks_count(&dead) && ranks_format(&dead, &text) == 0 &&
        text_shorten(&text, ranks_count(&dead)) == 0)
        stream_note(c,
                    ranks_count(&dead) > 1 ? "ranks %s are dead: their variables are gone"
                                           : "rank %s is dead: its variables are gone",
                    text.p);
    ranks_release(&dead);
    buf_release(&text);
}

void finish(struct cell *c)
{
    judge_rest(c);
    stream_flush(c);
    if (somebody(c, MEMBER_FAILED) || somebody(c, MEMBER_DEAD) || somebody(c, MEMBER_INTERRUPTED))
        c->bad = true;
    live_end(c);
    if (c->bad && !c->error)
        finish_show_error(c, report_error(c));
    report_late(c);
    note_dead(c);
    if (c->bad)
        finish_now(c);
    else
        succeed(c);
}

static void next_pull(struct cell *c)
{
    const bool all = fanout_pulls_values(c) && !c->plan.into;

    drop_blobs(c);
    c->pulled++;
    if (all)
        finish_now(c);
    else if (c->interrupts)
        cell_fail(c, "KeyboardInterrupt", "%s was pulled, and no more",
                  c->plan.names[c->pulled - 1]);
    else if (c->plan.names[c->pulled]) {
        if (cell_members(c) < 0)
            cell_fail(c, "RuntimeError", "out of memory");
        else
            fanout_fetch(c);
    } else {
        finish_now(c);
    }
}

static void expanded(struct cell *c, const json_t *content)
{
    if (json_is_string(json_object_get(content, "text")))
        cell_expanded(c, text_slice(content, "text"));
    else
        cell_fail_in_words(c, text_field(content, "ename"), "", text_slice(content, "evalue"));
}

void finish_bound(struct cell *c, const struct span *reply)
{
    json_t *content = text_parse(reply->v[F_REPLY_CONTENT].s);

    if (c->state == CELL_EXPANDING) {
        expanded(c, content);
    } else if (c->state == CELL_BINDING && c->binds) {
        c->binds--;
        if (json_object_size(json_object_get(content, "user_expressions"))) {
            json_decref(c->expressions);
            c->expressions = json_incref(json_object_get(content, "user_expressions"));
        }
        if (!slice_is(reply->v[F_REPLY_STATUS].s, "ok"))
            cell_fail_in_words(c, text_field(content, "ename"),
                               "home could not take the value: ", text_slice(content, "evalue"));
        else if (c->plan.gather && c->binds == 0)
            show_result(c, content);
        if (c->state == CELL_BINDING && c->binds == 0) {
            if (c->plan.kind == PLAN_PULL)
                next_pull(c);
            else
                finish_now(c);
        }
    }
    json_decref(content);
}

/* ---- the end ---- */

static json_t *reply_content(const struct cell *c)
{
    json_t *content = c->error ? json_deep_copy(c->error)
                      : c->bad ? json_loads(NO_MEMORY, 0, NULL)
                               : json_object();

    json_object_set_new(content, "status", json_string(c->bad ? "error" : "ok"));
    json_object_set_new(content, "execution_count", json_integer(c->count));
    json_object_set_new(content, "user_expressions",
                        c->expressions ? json_incref(c->expressions) : json_object());
    json_object_set_new(content, "payload", json_array());
    return content;
}

static void value_of_return(const struct cell *c, struct span *m)
{
    if (c->bad || !c->n || !(c->call_flags & CALL_VALUE) || !c->planned || c->plan.gather ||
        c->plan.into)
        return;
    m->blob = c->member[0].blob;
    m->blob_size = c->member[0].blob_size;
}

/* Home waits for it, so it gets one even when there is no memory, or the content is too long, for
 * the whole. */
static void send_return(struct cell *c)
{
    const uint32_t home = SPAN_WORKER_HOME;
    struct span m = { .kind = SPAN_RETURN, .worker = SPAN_WORKER_HOME, .cell = c->call };
    struct buf text = BUF_INIT;
    json_t *content = reply_content(c);

    if (c->table)
        json_object_set(content, "ranks", c->table);
    if (c->planned && c->plan.gather && !c->bad)
        json_object_set_new(content, "gathered", json_integer((json_int_t)c->id));
    value_of_return(c, &m);
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
}

static void send_reply(struct cell *c)
{
    const bool aborts = c->bad && c->stop_on_error;

    if (aborts)
        queue_take_in(c->nb);
    reply_json(c->nb, c->request, "execute_reply", reply_content(c));
    c->nb->doors.status(c->nb->doors.arg, c->request, "idle");
    page_reset(c->nb->page);
    if (aborts)
        queue_abort(c->nb);
}

/* Cells that asked home for nothing are in the history all the same. */
static void record(struct cell *c)
{
    struct span m = { .kind = SPAN_CAPTURE, .worker = SPAN_WORKER_HOME, .cell = c->id };

    if (!c->store || c->recorded)
        return;
    m.v[F_CAPTURE_FLAGS].u64 = CAPTURE_NONE | CAPTURE_RECORD;
    m.v[F_CAPTURE_COUNT].u64 = c->count;
    m.v[F_CAPTURE_RAW].s = slice_of(c->text, c->text_size);
    notebook_send(c->nb, SPAN_WORKER_HOME, &m);
}

/* What home still does for the cell is of no use to anybody. */
static void stop_home(struct cell *c)
{
    const struct span m = { .kind = SPAN_INTERRUPT, .worker = SPAN_WORKER_HOME, .cell = c->id };

    if (c->wants_capture || c->state == CELL_EXPANDING || c->state == CELL_SHIPPING || c->binds)
        notebook_send(c->nb, SPAN_WORKER_HOME, &m);
}

/* Those of its processes that are left: it failed before they had begun. */
static void kill_script(struct cell *c)
{
    struct ranks left = RANKS_INIT;

    if (cell_lingers(c) && ranks_add_range(&left, 0, c->passing->size - 1) == 0)
        manage_kill(c->nb, c->passing, &left, 9, 0);
    ranks_release(&left);
}

void finish_now(struct cell *c)
{
    struct notebook *nb = c->nb;

    if (c->state == CELL_OVER)
        return;
    if (c->bad)
        stop_home(c);
    stream_flush(c);
    live_end(c);
    if (c->failed)
        finish_show_error(c, report_error(c));
    record(c);
    kill_script(c);
    c->state = CELL_OVER;
    nb->cell = NULL;
    c->next_ended = nb->ended;
    nb->ended = c;
    request_unref(nb->rank_parent);
    nb->rank_parent = c->request ? request_ref(c->request) : NULL;
    if (!c->is_call)
        send_reply(c);
    else if (c->wants_return)
        send_return(c);
    drop_blobs(c);
    compare_over(c);
    cast_over(c);
}
