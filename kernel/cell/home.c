/* Requests that home answers, in the order in which it got them; its streams; and its deaths. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/cell/room.h"
#include "kernel/cell/text.h"

/* bytes of each of home's streams that are kept until there is a cell */
#define EARLY_MAX (64 << 10)

/* What is asked, until it is answered. */

static void remember(struct notebook *nb, uint64_t cell, struct request *r)
{
    request_unref(nb->recent[nb->recent_at].r);
    nb->recent[nb->recent_at].cell = cell;
    nb->recent[nb->recent_at].r = request_ref(r);
    nb->recent_at = (nb->recent_at + 1) % RECENT;
}

const struct request *home_parent_of(const struct notebook *nb, uint64_t cell)
{
    for (unsigned k = 0; cell && k < RECENT; k++)
        if (nb->recent[k].cell == cell)
            return nb->recent[k].r;
    return nb->home_parent;
}

static void home_flush_pace(struct notebook *nb)
{
    struct err err = { "" };

    if (pace_flush(nb->home_pace, &err) < 0)
        log_error("home", "%s", err.text);
}

void home_flush(struct notebook *nb)
{
    if (nb->home_gap && gap_flush(nb->home_gap) < 0)
        log_error("home", "out of memory: last lines are lost");
    home_flush_pace(nb);
}

bool home_keep_early(struct notebook *nb, unsigned stream, struct slice text)
{
    struct buf *kept = &nb->early[stream == 2];

    return !nb->home_owner && !nb->home_parent && kept->n + text.n <= EARLY_MAX &&
           buf_add(kept, text.p, text.n) == 0;
}

void home_tell_early(struct notebook *nb, const struct request *r)
{
    for (unsigned k = 0; k < 2; k++) {
        if (nb->early[k].n)
            publish_stream(nb, r, k + 1, buf_slice(&nb->early[k]));
        buf_release(&nb->early[k]);
    }
}

static struct asked *asked_add(struct notebook *nb, struct request *r)
{
    struct asked *a = calloc(1, sizeof *a), **at = &nb->asked;

    if (!a)
        return NULL;
    a->cell = nb->next_cell++;
    a->r = request_ref(r);
    while (*at)
        at = &(*at)->next;
    *at = a;
    if (strcmp(request_type(r), "execute_request") == 0 ||
        strncmp(request_type(r), "comm_", 5) == 0)
        remember(nb, a->cell, r);
    return a;
}

static int forward(struct notebook *nb, const struct asked *a, uint64_t flags, struct err *err)
{
    const uint32_t home = SPAN_WORKER_HOME;
    struct span m = { .kind = SPAN_REQUEST, .worker = SPAN_WORKER_HOME, .cell = a->cell };
    size_t n;
    const struct slice *buffers = request_buffers(a->r, &n);

    m.v[F_REQUEST_TYPE].s = slice_text(request_type(a->r));
    m.v[F_REQUEST_CONTENT].s = request_content_text(a->r);
    m.v[F_REQUEST_HEADER].s = request_header(a->r);
    m.v[F_REQUEST_METADATA].s = request_metadata(a->r);
    m.v[F_REQUEST_BUFFERS].list.item = (struct slice *)buffers;
    m.v[F_REQUEST_BUFFERS].list.n = n;
    m.v[F_REQUEST_COUNT].u64 = a->count;
    m.v[F_REQUEST_FLAGS].u64 = flags;
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
    for (struct asked **at = &nb->asked; *at; at = &(*at)->next)
        if ((*at)->cell == cell) {
            struct asked *a = *at;

            *at = a->next;
            if (nb->executing == a) {
                nb->executing = NULL;
                nb->home_awaits = false;
            }
            return a;
        }
    return NULL;
}

static void answer(struct notebook *nb, struct request *r, const struct parcel *p)
{
    char type[64];

    if (home_reply_type(request_type(r), type))
        nb->doors.reply(nb->doors.arg, r, type, p);
    nb->doors.status(nb->doors.arg, r, "idle");
    if (!nb->cell)
        page_reset(nb->page);
}

static void asked_end(struct notebook *nb, struct asked *a, const struct parcel *p, bool ok)
{
    const bool aborts = a->execute && !ok && a->stop_on_error;

    if (aborts)
        queue_take_in(nb);
    answer(nb, a->r, p);
    if (aborts)
        queue_abort(nb);
    request_unref(a->r);
    free(a);
}

/* What was asked of the home that is gone gets its answer from us: an error. */
static void asked_fail(struct notebook *nb, struct asked *a, const json_t *error)
{
    json_t *content = json_deep_copy(error);
    struct buf text = BUF_INIT;
    struct parcel p = { .content = slice_text(NO_MEMORY) };

    if (a->execute && !a->silent)
        publish_json(nb, a->r, "error", json_deep_copy(error));
    json_object_set_new(content, "status", json_string("error"));
    json_object_set_new(content, "execution_count", json_integer(a->count));
    if (text_json(&text, content) == 0)
        p.content = buf_slice(&text);
    asked_end(nb, a, &p, false);
    buf_release(&text);
}

/* Once home has imported torch a cell on ranks is near: what ranks are forked from is made ready
 * meanwhile. */
static void warm(struct notebook *nb, struct slice metadata)
{
    struct span m = { .kind = SPAN_WARM };
    json_t *object;

    if (nb->warmed || metadata.n <= 2) /* nearly always "{}" */
        return;
    if ((object = text_parse(metadata)) &&
        json_is_true(json_object_get(object, "cellspan_imported_torch"))) {
        nb->warmed = true;
        m.v[F_WARM_PYTHON].s = slice_text(nb->python);
        (void)notebook_send_node(nb, NODE_HERE, &m, NULL);
    }
    json_decref(object);
}

static void home_reply(struct notebook *nb, const struct span *m)
{
    struct asked *a = asked_take(nb, m->cell);
    const struct parcel p = {
        .content = m->v[F_REPLY_CONTENT].s,
        .metadata = m->v[F_REPLY_METADATA].s,
        .buffers = m->v[F_REPLY_BUFFERS].list.item,
        .n = m->v[F_REPLY_BUFFERS].list.n,
    };

    if (!a) {
        if (nb->cell && nb->cell->id == m->cell)
            finish_bound(nb->cell, m);
        return;
    }
    nb->deaths = 0;
    if (a->execute)
        home_flush(nb);
    warm(nb, p.metadata);
    asked_end(nb, a, &p, slice_is(m->v[F_REPLY_STATUS].s, "ok"));
}

static void home_lines(struct notebook *nb, const struct span *m)
{
    struct err err = { "" };
    const struct slice data = m->v[F_LINES_DATA].s;

    const unsigned stream = m->v[F_LINES_STREAM].u64 == 2 ? 2 : 1;

    if ((nb->home_gap ? gap_text(nb->home_gap, stream, data)
                      : pace_add(nb->home_pace, stream, data, &err)) < 0)
        log_error("home", "%s", err.text);
    nb->doors.owe(nb->doors.arg, SPAN_WORKER_HOME, data.n);
}

static size_t publish_size(const struct span *m)
{
    size_t n = m->v[F_PUBLISH_CONTENT].s.n + m->v[F_PUBLISH_METADATA].s.n;

    for (size_t k = 0; k < m->v[F_PUBLISH_BUFFERS].list.n; k++)
        n += m->v[F_PUBLISH_BUFFERS].list.item[k].n;
    return n;
}

static void home_publish(struct notebook *nb, const struct span *m)
{
    char type[64];
    const struct slice given = m->v[F_PUBLISH_TYPE].s;
    const struct parcel p = {
        .content = m->v[F_PUBLISH_CONTENT].s,
        .metadata = m->v[F_PUBLISH_METADATA].s,
        .buffers = m->v[F_PUBLISH_BUFFERS].list.item,
        .n = m->v[F_PUBLISH_BUFFERS].list.n,
    };

    if (given.n >= sizeof type)
        return;
    memcpy(type, given.p, given.n);
    type[given.n] = '\0';
    if (nb->home_gap && strstr(type, "display_data") && !gap_display(nb->home_gap, p.content.n)) {
        nb->doors.owe(nb->doors.arg, SPAN_WORKER_HOME, publish_size(m));
        return;
    }
    if (strncmp(type, "comm_", 5) == 0) /* ends no gap: they may be many */
        home_flush_pace(nb);
    else
        home_flush(nb);
    nb->doors.publish(nb->doors.arg, home_parent_of(nb, m->cell), type, &p);
    nb->doors.owe(nb->doors.arg, SPAN_WORKER_HOME, publish_size(m));
}

static void home_owner(struct notebook *nb, const struct span *m)
{
    const struct request *r = m->v[F_OWNER_KEEP].u64 ? home_parent_of(nb, m->cell) : NULL;

    home_flush(nb);
    request_unref(nb->home_owner);
    nb->home_owner = r ? request_ref((struct request *)r) : NULL;
}

static void home_awaits(struct notebook *nb, const struct span *m)
{
    if (!nb->executing || nb->executing->cell != m->cell)
        return;
    nb->home_awaits = true;
    queue_pass_comms(nb);
}

/* A thread of an earlier cell asks under the one that runs: clients show a prompt nowhere else. */
static void home_input(struct notebook *nb, const struct span *m)
{
    const struct request *r = nb->executing                   ? nb->executing->r
                              : nb->cell && nb->cell->request ? nb->cell->request
                                                              : home_parent_of(nb, m->cell);

    if (m->v[F_INPUT_OVER].u64)
        prompts_take_back(nb, SPAN_WORKER_HOME, m);
    else if (r)
        prompts_add(nb, r, SPAN_WORKER_HOME, -1, false, m);
}

static void home_ready(struct notebook *nb, const struct span *m)
{
    json_t *info = text_parse(m->v[F_READY_INFO].s);
    char *cwd = strdup(text_field(info, "cwd"));

    if (cwd) {
        free(nb->cwd);
        nb->cwd = cwd;
    }
    json_decref(info);
    nb->home = HOME_READY;
    info_ready(nb, m);
}

void home_message(struct notebook *nb, const struct span *m)
{
    switch (m->kind) {
    case SPAN_READY:
        home_ready(nb, m);
        break;
    case SPAN_REPLY:
        home_reply(nb, m);
        break;
    case SPAN_PUBLISH:
        home_publish(nb, m);
        break;
    case SPAN_LINES:
        home_lines(nb, m);
        break;
    case SPAN_INPUT:
        home_input(nb, m);
        break;
    case SPAN_OWNER:
        home_owner(nb, m);
        break;
    case SPAN_AWAITS:
        home_awaits(nb, m);
        break;
    case SPAN_CALL:
        home_flush(nb);
        cell_begin_call(nb, m);
        break;
    case SPAN_ASK:
        question_take(nb, m);
        break;
    case SPAN_CAPTURED:
    case SPAN_PACKED:
        if (nb->cell && nb->cell->id == m->cell)
            gather_message(nb->cell, NODE_HERE, m);
        else
            notebook_drop(nb, m->blob_size ? m->blob : 0); /* packed for a cell that is over */
        break;
    default:
        log_warn("home", "a message of kind %u is not for the kernel", (unsigned)m->kind);
    }
}

/* ---- asking ---- */

static void no_memory(struct notebook *nb, struct request *r)
{
    const struct parcel p = { .content = slice_text(NO_MEMORY) };

    log_error("home", "a request is refused: out of memory");
    answer(nb, r, &p);
}

/* It could not be sent: it is too large, or nobody is there. */
static void refuse(struct notebook *nb, struct asked *a, const struct err *why)
{
    json_t *error = json_pack("{s:s, s:s, s:[o]}", "ename", "RuntimeError", "evalue", why->text,
                              "traceback", json_sprintf("RuntimeError: %s", why->text));

    asked_fail(nb, asked_take(nb, a->cell), error);
    json_decref(error);
}

void home_ask(struct notebook *nb, struct request *r)
{
    struct asked *a = asked_add(nb, r);
    struct err err = { "" };

    nb->doors.status(nb->doors.arg, r, "busy");
    if (!a)
        no_memory(nb, r);
    else if (forward(nb, a, 0, &err) < 0)
        refuse(nb, a, &err);
}

/* Home gets the cell before clients hear of it, and works meanwhile: its answers come in a later
 * turn of the loop. */
void home_execute(struct notebook *nb, struct request *r, unsigned count)
{
    struct asked *a = asked_add(nb, r);
    struct err err = { "" };
    int rc;

    if (!a) {
        notebook_announce(nb, r, count);
        no_memory(nb, r);
        return;
    }
    home_flush(nb);
    pace_begin_cell(nb->home_pace);
    request_unref(nb->home_parent);
    nb->home_parent = request_ref(r);
    a->execute = true;
    a->count = nb->home_count = count;
    logs_note(nb, a->cell, count, 0);
    a->silent = request_flag(r, "silent", false);
    a->stop_on_error = request_flag(r, "stop_on_error", true);
    nb->executing = a;
    rc = forward(nb, a,
                 (a->silent ? EXECUTE_SILENT : 0) |
                     (!a->silent && request_flag(r, "store_history", true) ? EXECUTE_STORE : 0) |
                     (request_flag(r, "allow_stdin", true) ? EXECUTE_STDIN : 0),
                 &err);
    notebook_announce(nb, r, count);
    if (rc < 0)
        refuse(nb, a, &err);
}

/* ---- deaths ---- */

void home_start(struct notebook *nb)
{
    const uint32_t home = SPAN_WORKER_HOME;
    const unsigned char rank[4] = { 0 };
    struct span m = { .kind = SPAN_START };

    nb->home = HOME_STARTING;
    m.v[F_START_RANKS].s = slice_of(rank, sizeof rank);
    m.v[F_START_GROUP].s = slice_text("home");
    m.v[F_START_PYTHON].s = slice_text(nb->python);
    m.v[F_START_CWD].s = slice_text("");
    m.v[F_START_ENV].s = slice_text("{}");
    (void)notebook_send_to(nb, &home, 1, &m, NULL);
}

/* Takes error; NULL: there was no memory for it. */
static void home_gone(struct notebook *nb, json_t *error)
{
    struct cell *c = nb->cell;

    home_flush(nb);
    prompts_leave(nb, SPAN_WORKER_HOME);
    request_unref(nb->home_owner);
    nb->home_owner = NULL;
    group_forget_versions(nb->group);
    if (c && (c->is_call || c->state < CELL_RUNNING || c->state == CELL_BINDING)) {
        c->wants_return = false;
        cell_fail(c, error ? text_field(error, "ename") : "HomeDied", "%s",
                  text_field(error, "evalue"));
    }
    while (nb->asked)
        asked_fail(nb, asked_take(nb, nb->asked->cell), error);
    json_decref(error);
}

void home_exited(struct notebook *nb, const struct span *m)
{
    const bool had_started = nb->home == HOME_READY;
    json_t *error = report_exit(had_started ? "HomeDied" : "HomeNotStarted", "home", m);

    nb->home = HOME_BROKEN;
    if (had_started && nb->deaths++ < DEATHS_MAX) {
        /* one that dies as it starts, over and over, waits until it is needed */
        home_start(nb);
        publish_stream(nb, nb->home_parent, 2,
                       slice_text("cellspan: home ended; a new one is starting: the variables "
                                  "of home are gone, the ranks keep theirs\n"));
    }
    home_gone(nb, error);
}

void home_lost(struct notebook *nb, const char *why)
{
    json_t *error = json_pack("{s:s, s:s, s:[o]}", "ename", "AgentDied", "evalue", why, "traceback",
                              json_sprintf("AgentDied: %s", why));

    nb->home = HOME_STARTING;
    home_gone(nb, error);
}

void home_release(struct notebook *nb)
{
    while (nb->asked) {
        struct asked *a = asked_take(nb, nb->asked->cell);

        request_unref(a->r);
        free(a);
    }
    for (unsigned k = 0; k < RECENT; k++)
        request_unref(nb->recent[k].r);
    request_unref(nb->home_parent);
    request_unref(nb->home_owner);
    buf_release(&nb->early[0]);
    buf_release(&nb->early[1]);
}
