/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that home answers, in the order in which home got them, and home's output. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/notebook/notebook.h"

/* bytes of each of home's streams that are kept for the next cell */
#define EARLY_MAX (64 << 10)

static void remember(struct notebook *nb, uint64_t cell, struct request *r)
{
    request_unref(nb->home.recent[nb->home.recent_at].r);
    nb->home.recent[nb->home.recent_at].cell = cell;
    nb->home.recent[nb->home.recent_at].r = request_ref(r);
    nb->home.recent_at = (nb->home.recent_at + 1) % RECENT;
}

const struct request *home_parent_of(const struct notebook *nb, uint64_t cell)
{
    const struct asked *a;

    for (unsigned k = 0; cell && k < RECENT; k++)
        if (nb->home.recent[k].cell == cell)
            return nb->home.recent[k].r;
    return (a = home_asked(nb, cell)) ? a->r : nb->home.parent;
}

const struct asked *home_asked(const struct notebook *nb, uint64_t cell)
{
    const struct asked *a = nb->home.asked;

    while (a && a->cell != cell)
        a = a->next;
    return a;
}

static void home_flush_pace(struct notebook *nb)
{
    struct err err = { "" };

    if (pace_flush(nb->home.pace, &err) < 0)
        log_error("home", "%s", err.text);
}

void home_flush(struct notebook *nb)
{
    if (nb->home.omit && omit_flush(nb->home.omit) < 0)
        log_error("home", "out of memory: last lines are lost");
    home_flush_pace(nb);
}

bool home_keep(struct notebook *nb, unsigned stream, struct slice text)
{
    struct buf *kept = &nb->home.early[stream == 2];

    return kept->n + text.n <= EARLY_MAX && buf_add(kept, text.p, text.n) == 0;
}

bool home_keep_early(struct notebook *nb, unsigned stream, struct slice text)
{
    return !nb->home.output_parent && !nb->home.parent && home_keep(nb, stream, text);
}

static void show_early(struct notebook *nb, const struct request *r)
{
    for (unsigned k = 0; k < 2; k++) {
        if (nb->home.early[k].n)
            publish_stream(nb, r, k + 1, buf_slice(&nb->home.early[k]));
        buf_release(&nb->home.early[k]);
    }
}

static void publish_input(struct notebook *nb, struct request *r, unsigned count)
{
    const json_t *code = json_object_get(request_content(r), "code");

    publish_json(nb, r, "execute_input",
                 json_pack("{s:O, s:i}", "code", code ? code : json_null(), "execution_count",
                           (int)count));
}

void notebook_announce(struct notebook *nb, struct request *r, unsigned count)
{
    nb->ops.status(nb->ops.arg, r, "busy");
    if (request_flag(r, "silent", false))
        return;
    publish_input(nb, r, count);
    show_early(nb, r);
}

static struct asked *asked_add(struct notebook *nb, struct subshell *s, struct request *r)
{
    struct asked *a = calloc(1, sizeof *a), **at = &nb->home.asked;

    if (!a)
        return NULL;
    a->cell = notebook_next_cell(nb);
    a->r = request_ref(r);
    a->subshell = s;
    a->asked_ns = notebook_now(nb);
    while (*at)
        at = &(*at)->next;
    *at = a;
    if (strcmp(request_type(r), "execute_request") == 0 ||
        strncmp(request_type(r), "comm_", 5) == 0)
        remember(nb, a->cell, r);
    return a;
}

static int forward(struct notebook *nb, const struct asked *a, struct slice content, uint64_t flags,
                   struct err *err)
{
    const uint32_t home = SPAN_WORKER_HOME;
    struct span m = { .kind = SPAN_REQUEST, .worker = SPAN_WORKER_HOME, .cell = a->cell };
    size_t n;
    const struct slice *buffers = request_buffers(a->r, &n);

    m.v[F_REQUEST_TYPE].s = slice_text(request_type(a->r));
    m.v[F_REQUEST_CONTENT].s = content;
    m.v[F_REQUEST_HEADER].s = request_part(a->r, JUPYTER_HEADER);
    m.v[F_REQUEST_METADATA].s = request_part(a->r, JUPYTER_METADATA);
    m.v[F_REQUEST_BUFFERS].list.item = (struct slice *)buffers;
    m.v[F_REQUEST_BUFFERS].list.n = n;
    m.v[F_REQUEST_COUNT].u64 = a->count;
    m.v[F_REQUEST_FLAGS].u64 = flags;
    if (a->subshell) {
        m.kind = SPAN_SUBSHELL;
        m.v[F_SUBSHELL_ID].s = slice_text(a->subshell->id);
    }
    return notebook_send_to(nb, &home, 1, &m, err);
}

/* ---- answers ---- */

bool home_reply_type(const char *type, char out[static 64])
{
    const char *end = strstr(type, "_request");

    if (!end || end - type > 40)
        return false;
    memcpy(out, type, (size_t)(end - type));
    strcpy(out + (end - type), "_reply");
    return true;
}

static struct asked *asked_take(struct notebook *nb, uint64_t cell)
{
    for (struct asked **at = &nb->home.asked; *at; at = &(*at)->next)
        if ((*at)->cell == cell) {
            struct asked *a = *at;

            *at = a->next;
            if (nb->home.executing == a) {
                nb->home.executing = NULL;
                nb->home.awaits = false;
            }
            if (a->subshell && a->subshell->executing == a)
                a->subshell->executing = NULL;
            return a;
        }
    return NULL;
}

static void answer(struct notebook *nb, struct request *r, const struct content *p)
{
    char type[64];

    if (home_reply_type(request_type(r), type))
        nb->ops.reply(nb->ops.arg, r, type, p);
    nb->ops.status(nb->ops.arg, r, "idle");
    if (!nb->cells)
        output_limit_reset(nb->output_limit);
}

static void asked_end(struct notebook *nb, struct asked *a, const struct content *p, bool ok)
{
    const bool aborts = a->execute && !ok && a->stop_on_error;

    if (aborts)
        queue_drain_shell(nb);
    answer(nb, a->r, p);
    if (aborts)
        queue_abort(nb, a->subshell ? &a->subshell->queue : &nb->queue);
    request_unref(a->r);
    free(a);
}

/* Home has ended before it answered. create_subshell_request fails, so the subshell is removed.
 * delete_subshell_request succeeds, since the thread has ended with home. Returns the reply's
 * status. */
static const char *without_thread(struct asked *a)
{
    if (a->subshell && strcmp(request_type(a->r), "create_subshell_request") == 0)
        a->subshell->deleted = true;
    return strcmp(request_type(a->r), "delete_subshell_request") == 0 ? "ok" : "error";
}

/* Answers a request with an error, since home can't answer it. */
static void asked_fail(struct notebook *nb, struct asked *a, const json_t *error)
{
    json_t *content = json_deep_copy(error);
    struct buf text = BUF_INIT;
    struct content p = { .content = slice_text(NO_MEMORY) };

    if (a->execute && !a->silent)
        publish_json(nb, a->r, "error", json_deep_copy(error));
    json_object_set_new(content, "status", json_string(without_thread(a)));
    json_object_set_new(content, "execution_count", json_integer(a->count));
    if (text_json(&text, content) == 0)
        p.content = buf_slice(&text);
    asked_end(nb, a, &p, false);
    buf_release(&text);
}

/* After home has imported torch, a cell on ranks will probably follow: the zygote, from which ranks
 * are forked, starts now. */
static void warm(struct notebook *nb, struct slice metadata)
{
    struct span m = { .kind = SPAN_WARM };
    json_t *object;

    if (nb->home.warmed || metadata.n <= 2) /* it is nearly always "{}" */
        return;
    if ((object = text_parse(metadata)) &&
        json_is_true(json_object_get(object, "cellspan_imported_torch"))) {
        nb->home.warmed = true;
        m.v[F_WARM_PYTHON].s = slice_text(nb->config.python);
        (void)notebook_send_node(nb, NODE_HERE, &m, NULL);
    }
    json_decref(object);
}

bool home_reply(struct notebook *nb, const struct span *m)
{
    const struct asked *a = home_asked(nb, m->cell); /* it runs until its output has left */
    const struct content p = {
        .content = m->v[F_REPLY_CONTENT].s,
        .metadata = m->v[F_REPLY_METADATA].s,
        .buffers = m->v[F_REPLY_BUFFERS].list.item,
        .n = m->v[F_REPLY_BUFFERS].list.n,
    };

    if (!a)
        return false;
    nb->home.deaths = 0;
    if (comms_waits(nb->comms.table))
        comm_output_flush(nb, SPAN_WORKER_HOME);
    if (a->execute && a->subshell)
        subshell_text_flush(a->subshell);
    else if (a->execute)
        home_flush(nb);
    warm(nb, p.metadata);
    asked_end(nb, asked_take(nb, m->cell), &p, slice_is(m->v[F_REPLY_STATUS].s, "ok"));
    return true;
}

void home_lines(struct notebook *nb, const struct span *m)
{
    struct err err = { "" };
    const struct slice data = m->v[F_LINES_DATA].s;

    const unsigned stream = m->v[F_LINES_STREAM].u64 == 2 ? 2 : 1;

    if ((nb->home.omit ? omit_text(nb->home.omit, stream, data)
                       : pace_add(nb->home.pace, stream, data, &err)) < 0)
        log_error("home", "%s", err.text);
    nb->ops.owe(nb->ops.arg, SPAN_WORKER_HOME, data.n);
}

void home_publish(struct notebook *nb, const struct span *m)
{
    const struct asked *a = nb->home.subshells.first ? home_asked(nb, m->cell) : NULL;
    struct subshell *s = a && a->execute ? a->subshell : NULL;
    struct published p;

    if (!published_read(&p, m))
        return;
    if (strncmp(p.type, "comm_", 5) == 0) {
        if (s)
            subshell_text_flush_pace(s);
        else
            home_flush_pace(nb); /* home_flush() would show the last lines before each of many */
        comm_output_take(nb, SPAN_WORKER_HOME, home_parent_of(nb, m->cell), &p);
        nb->ops.owe(nb->ops.arg, SPAN_WORKER_HOME, p.size);
        return;
    }
    if (comms_waits(nb->comms.table))
        comm_output_flush(nb, SPAN_WORKER_HOME);
    if (s) {
        subshell_text_publish(s, &p);
    } else if (!nb->home.omit || !strstr(p.type, "display_data") ||
               omit_display(nb->home.omit, p.content.content.n)) {
        home_flush(nb);
        publish_content(nb, home_parent_of(nb, m->cell), p.type, &p.content);
    }
    nb->ops.owe(nb->ops.arg, SPAN_WORKER_HOME, p.size);
}

void home_output_parent(struct notebook *nb, const struct span *m)
{
    const struct request *r = m->v[F_OUTPUT_PARENT_KEEP].u64 ? home_parent_of(nb, m->cell) : NULL;

    home_flush(nb);
    request_unref(nb->home.output_parent);
    nb->home.output_parent = r ? request_ref((struct request *)r) : NULL;
}

void home_ready(struct notebook *nb, const struct span *m)
{
    json_t *info = text_parse(m->v[F_READY_INFO].s);
    char *cwd = strdup(text_field(info, "cwd"));

    if (cwd) {
        free(nb->home.cwd);
        nb->home.cwd = cwd;
    }
    nb->home.no_debugger = !json_is_true(json_object_get(info, "debugger"));
    json_decref(info);
    nb->home.state = HOME_READY;
    info_ready(nb, m);
}

/* ---- asking ---- */

static void no_memory(struct notebook *nb, struct request *r)
{
    const struct content p = { .content = slice_text(NO_MEMORY) };

    log_error("home", "a request is refused: out of memory");
    answer(nb, r, &p);
}

/* The request could not be sent: it is too large, or home's agent is gone. */
static void refuse(struct notebook *nb, struct asked *a, const struct err *why)
{
    json_t *error = json_pack("{s:s, s:s, s:[o]}", "ename", "RuntimeError", "evalue", why->text,
                              "traceback", json_sprintf("RuntimeError: %s", why->text));

    asked_fail(nb, asked_take(nb, a->cell), error);
    json_decref(error);
}

static void ask(struct notebook *nb, struct subshell *s, struct request *r, struct slice content)
{
    struct asked *a = asked_add(nb, s, r);
    struct err err = { "" };

    nb->ops.status(nb->ops.arg, r, "busy");
    if (!a)
        no_memory(nb, r);
    else if (forward(nb, a, content, 0, &err) < 0)
        refuse(nb, a, &err);
}

void home_ask(struct notebook *nb, struct request *r)
{
    ask(nb, notebook_subshell(nb, r), r, request_part(r, JUPYTER_CONTENT));
}

void home_ask_subshell(struct notebook *nb, struct subshell *s, struct request *r,
                       struct slice content)
{
    ask(nb, s, r, content);
}

/* The main shell begins a cell. */
static void begin_main(struct notebook *nb, struct asked *a)
{
    home_flush(nb);
    pace_begin_cell(nb->home.pace);
    request_unref(nb->home.parent);
    nb->home.parent = request_ref(a->r);
    nb->home.count = a->count;
    nb->home.executing = a;
}

/* Sends the cell to home before telling the clients, so that home can begin. The order of messages
 * to clients stays right, since home's answers are read in a later turn of the loop. */
void home_execute(struct notebook *nb, struct subshell *s, struct request *r, unsigned count)
{
    struct asked *a = s && subshell_text_begin(s, r, count) < 0 ? NULL : asked_add(nb, s, r);
    struct err err = { "" };
    int rc;

    if (!a) {
        notebook_announce(nb, r, count);
        no_memory(nb, r);
        return;
    }
    a->execute = true;
    a->count = count;
    notebook_note_ran(nb, a->cell, count, 0);
    a->silent = request_flag(r, "silent", false);
    a->stop_on_error = request_flag(r, "stop_on_error", true);
    if (s)
        s->executing = a;
    else
        begin_main(nb, a);
    rc = forward(nb, a, request_part(r, JUPYTER_CONTENT),
                 (a->silent ? REQUEST_SILENT : 0) |
                     (!a->silent && request_flag(r, "store_history", true) ? REQUEST_STORE : 0) |
                     (request_flag(r, "allow_stdin", true) ? REQUEST_STDIN : 0),
                 &err);
    notebook_announce(nb, r, count);
    if (rc < 0)
        refuse(nb, a, &err);
}

/* ---- the end ---- */

void home_fail(struct notebook *nb, const json_t *error)
{
    struct asked *last = nb->home.asked, *a = NULL;

    while (last && last->next)
        last = last->next;
    while (nb->home.asked && a != last) { /* those that come meanwhile are for the next home */
        a = nb->home.asked;
        asked_fail(nb, asked_take(nb, a->cell), error);
    }
}

void home_disown(struct notebook *nb)
{
    request_unref(nb->home.output_parent);
    nb->home.output_parent = NULL;
}

void home_release(struct notebook *nb)
{
    while (nb->home.asked) {
        struct asked *a = asked_take(nb, nb->home.asked->cell);

        request_unref(a->r);
        free(a);
    }
    for (unsigned k = 0; k < RECENT; k++)
        request_unref(nb->home.recent[k].r);
    request_unref(nb->home.parent);
    home_disown(nb);
    buf_release(&nb->home.early[0]);
    buf_release(&nb->home.early[1]);
}
