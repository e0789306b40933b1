/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm messages of pages: which process gets them. Home's go the way of its other requests. Ranks
 * get theirs at once, and serve them between cells. The kernel itself tells a page the state of all
 * widgets, from its copies, so that no process needs to be asked. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/notebook/notebook.h"

/* how long a cell waits for the callback of a widget before the callback is interrupted */
#define CALLBACK_LIMIT_NS (5 * NS_PER_S)

/* ---- messages that ranks have not answered ---- */

struct comm_unanswered *comm_unanswered_of(const struct notebook *nb, uint32_t worker,
                                           uint64_t cell)
{
    struct comm_unanswered *t = nb->comms.unanswered;

    while (t && ((worker && t->worker != worker) || (cell && t->cell != cell)))
        t = t->next;
    return t;
}

static int show_text(void *arg, unsigned stream, struct slice text)
{
    const struct comm_unanswered *t = arg;

    if (t->nb->output_limit)
        output_limit_count(t->nb->output_limit, output_limit_size(text));
    publish_stream(t->nb, t->r, stream, text);
    return 0;
}

static void lost(int rc, const struct err *err)
{
    if (rc < 0)
        log_error("comms", "text of a widget's callback is lost: %s", err->text);
}

void comm_unanswered_text(struct comm_unanswered *t, unsigned stream, struct slice text)
{
    struct err err = { "" };

    if (!t->pace)
        t->pace = pace_create(t->nb->ops.clock, show_text, t, &err);
    lost(t->pace ? pace_add(t->pace, stream, text, &err) : -1, &err);
}

void comm_unanswered_flush(struct comm_unanswered *t)
{
    struct err err = { "" };

    if (t->pace)
        lost(pace_flush(t->pace, &err), &err);
}

void comm_unanswered_tick(struct notebook *nb)
{
    struct err err = { "" };

    for (struct comm_unanswered *t = nb->comms.unanswered; t; t = t->next)
        if (t->pace)
            lost(pace_tick(t->pace, &err), &err);
}

uint64_t comm_unanswered_due(const struct notebook *nb)
{
    uint64_t due = NEVER;

    for (const struct comm_unanswered *t = nb->comms.unanswered; t; t = t->next)
        if (t->pace)
            due = clock_earlier(due, pace_due_ns(t->pace));
    return due;
}

static void unanswered_end(struct notebook *nb, struct comm_unanswered *t)
{
    struct comm_unanswered **at = &nb->comms.unanswered;

    comm_unanswered_flush(t);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    nb->ops.status(nb->ops.arg, t->r, "idle");
    if (!nb->cells)
        output_limit_reset(nb->output_limit);
    pace_destroy(t->pace);
    request_unref(t->r);
    free(t);
}

static struct comm_unanswered *unanswered_add(struct notebook *nb, uint32_t worker,
                                              struct request *r)
{
    struct comm_unanswered *t = calloc(1, sizeof *t), **at = &nb->comms.unanswered;

    if (!t)
        return NULL;
    t->cell = notebook_next_cell(nb);
    t->worker = worker;
    t->nb = nb;
    t->sent_ns = notebook_now(nb);
    t->r = request_ref(r);
    while (*at)
        at = &(*at)->next;
    *at = t;
    return t;
}

static void to_rank(struct notebook *nb, uint32_t worker, struct request *r)
{
    struct span m = { .kind = SPAN_COMM, .worker = worker };
    struct comm_unanswered *t = unanswered_add(nb, worker, r);
    size_t n;
    const struct slice *buffers = request_buffers(r, &n);

    nb->ops.status(nb->ops.arg, r, "busy");
    if (!t) {
        log_error("comms", "a message for a rank is lost: out of memory");
        nb->ops.status(nb->ops.arg, r, "idle");
        return;
    }
    m.cell = t->cell;
    m.v[F_COMM_TYPE].s = slice_text(request_type(r));
    m.v[F_COMM_CONTENT].s = request_part(r, JUPYTER_CONTENT);
    m.v[F_COMM_HEADER].s = request_part(r, JUPYTER_HEADER);
    m.v[F_COMM_METADATA].s = request_part(r, JUPYTER_METADATA);
    m.v[F_COMM_BUFFERS].list.item = (struct slice *)buffers;
    m.v[F_COMM_BUFFERS].list.n = n;
    if (notebook_send_to(nb, &worker, 1, &m, NULL) < 0)
        unanswered_end(nb, t);
}

void comm_routes_on_reply(struct notebook *nb, uint32_t worker, const struct span *m)
{
    struct comm_unanswered *t = comm_unanswered_of(nb, worker, m->cell);

    comm_output_flush(nb, worker);
    if (t)
        unanswered_end(nb, t);
}

void comm_routes_gone(struct notebook *nb, uint32_t worker)
{
    struct comm_unanswered *t;

    while ((t = comm_unanswered_of(nb, worker, 0)))
        unanswered_end(nb, t);
}

static void interrupt(struct notebook *nb, const struct comm_unanswered *t)
{
    const struct span m = { .kind = SPAN_INTERRUPT, .worker = t->worker, .cell = t->cell };

    notebook_send(nb, t->worker, &m);
}

void comm_routes_interrupt(struct notebook *nb)
{
    for (const struct comm_unanswered *t = nb->comms.unanswered; t; t = t->next)
        interrupt(nb, t);
}

/* ---- a callback that a cell waits for ---- */

/* Does its rank serve it now? Later ones of this rank wait for it, or for the rank's cell. */
static bool is_served(const struct notebook *nb, const struct comm_unanswered *t)
{
    const struct rank *r = notebook_rank(nb, t->worker, NULL);

    return r && comm_unanswered_of(nb, t->worker, 0) == t &&
           (r->state != RANK_BUSY || t->sent_ns <= r->since_ns);
}

void comm_routes_interrupt_late(struct notebook *nb, uint64_t *since_ns, const struct ranks *to,
                                comm_late_f late, void *arg)
{
    const uint64_t now = notebook_now(nb);
    const bool waits = *since_ns != NEVER;

    if (!nb->comms.unanswered || (waits && now < *since_ns + CALLBACK_LIMIT_NS))
        return;
    for (struct comm_unanswered *t = waits ? nb->comms.unanswered : NULL; t; t = t->next) {
        const struct rank *r = notebook_rank(nb, t->worker, NULL);

        if (t->late || !r || !ranks_has(to, r->number) || !is_served(nb, t))
            continue;
        t->late = true;
        interrupt(nb, t);
        late(arg, r->number, (unsigned)((now - t->sent_ns) / NS_PER_S));
    }
    *since_ns = now;
}

uint64_t comm_routes_late_due(const struct notebook *nb, uint64_t since_ns)
{
    return !nb->comms.unanswered ? NEVER : since_ns != NEVER ? since_ns + CALLBACK_LIMIT_NS : 0;
}

uint64_t comm_routes_due(const struct notebook *nb)
{
    const struct comm_list *l = &nb->comms;
    const uint64_t due = l->closing ? comms_slot_ns(l->table) : comms_due_ns(l->table);

    return due != NEVER && nb->output_limit && l->full ? output_limit_due_ns(nb->output_limit)
                                                       : due;
}

/* ---- which process ---- */

static void publish_closed(struct notebook *nb, const struct request *r, struct slice id)
{
    publish_json(nb, r, "comm_close", json_pack("{s:s%, s:{}}", "comm_id", id.p, id.n, "data"));
}

static bool is_busy(const struct notebook *nb, uint32_t worker)
{
    const struct rank *r = notebook_rank(nb, worker, NULL);

    if (worker == SPAN_WORKER_HOME)
        return nb->home.executing != NULL;
    return (r && r->state == RANK_BUSY) || comm_unanswered_of(nb, worker, 0);
}

/* Is there no copy of some widgets, and could all of these be asked now? */
static bool can_ask(const struct notebook *nb)
{
    const struct page_comm *c = comms_lacking(nb->comms.table, NULL);
    const bool any = c;

    while (c && !is_busy(nb, c->worker))
        c = comms_lacking(nb->comms.table, c);
    return any && !c;
}

/* A page asks for the state of all widgets. If there is no copy of some, the comm is closed: then
 * the page asks for each of those that comm_info_request names. But it would wait for each, and
 * show none: so if a busy process would have to answer, the page gets the others. */
static void tell_states(struct notebook *nb, struct request *r, struct slice id)
{
    struct buf content = BUF_INIT;
    struct slice *list = NULL;
    size_t n = 0;
    const int rc = can_ask(nb) ? -1 : comms_states(nb->comms.table, id, &content, &list, &n);
    const struct content p = { .content = buf_slice(&content), .buffers = list, .n = n };

    if (rc == 0)
        comm_output_send(nb, r, "comm_msg", &p);
    else
        publish_closed(nb, r, id);
    free(list);
    buf_release(&content);
}

static void control(struct notebook *nb, struct request *r, struct slice id, const char *method)
{
    nb->ops.status(nb->ops.arg, r, "busy");
    if (strcmp(request_type(r), "comm_msg") == 0 && strcmp(method, "request_states") == 0)
        tell_states(nb, r, id);
    nb->ops.status(nb->ops.arg, r, "idle");
}

/* What a page sets, the process will have. */
static void copy(struct notebook *nb, struct page_comm *c, const struct request *r,
                 const json_t *data)
{
    size_t n;
    const struct slice *buffers = request_buffers(r, &n);

    if (strcmp(text_field(data, "method"), "update") == 0)
        comms_copy(nb->comms.table, c, data, buffers, n, false);
}

/* A page opens a comm. Home closes it again if it does not know the target. */
static bool open_one(struct notebook *nb, struct request *r, struct slice id)
{
    const struct slice target = text_slice(request_content(r), "target_name");
    const bool ours = slice_is(target, COMM_CONTROL);
    const struct page_comm *c = comms_open(nb->comms.table, id, target,
                                           ours ? 0 : SPAN_WORKER_HOME);

    if (!c)
        log_error("comms", "a comm is not noted: out of memory, or its id has a NUL");
    if (!ours)
        return false;
    control(nb, r, id, "");
    return true;
}

bool notebook_has_room(struct notebook *nb, uint32_t worker, const struct request *parent)
{
    const struct node *full = notebook_full_node(nb, notebook_node_of(nb, worker));
    struct buf line = BUF_INIT;

    if (!full || !comms_tell_dropped(nb->comms.table, notebook_now(nb)))
        return !full;
    if (buf_addf(&line,
                 "cellspan: %s is slow to take what was sent to it: until it is not, what you do "
                 "with widgets or the debugger does not reach its ranks\n",
                 full->name) == 0)
        publish_stream(nb, parent, 2, buf_slice(&line));
    buf_release(&line);
    return false;
}

/* Must the message be dropped? Then the page gets busy and idle, so that it waits for no answer.
 * comm_close is never dropped: it is small, and without it the rank would keep the comm. */
static bool drops(struct notebook *nb, uint32_t worker, struct request *r)
{
    if (worker == 0 || worker == SPAN_WORKER_HOME || strcmp(request_type(r), "comm_close") == 0 ||
        notebook_has_room(nb, worker, r))
        return false;
    nb->ops.status(nb->ops.arg, r, "busy");
    nb->ops.status(nb->ops.arg, r, "idle");
    return true;
}

bool comm_routes_take(struct notebook *nb, struct request *r)
{
    const json_t *data = json_object_get(request_content(r), "data");
    const struct slice id = text_slice(request_content(r), "comm_id");
    struct page_comm *c;
    uint32_t worker;

    if (strcmp(request_type(r), "comm_open") == 0)
        return open_one(nb, r, id);
    if (!(c = comms_find(nb->comms.table, id)))
        return false;
    worker = c->worker;
    if (drops(nb, worker, r))
        return true;
    if (worker == 0)
        control(nb, r, id, text_field(data, "method"));
    else if (strcmp(request_type(r), "comm_msg") == 0)
        copy(nb, c, r, data);
    if (strcmp(request_type(r), "comm_close") == 0)
        comms_close(nb->comms.table, c);
    if (worker != 0 && worker != SPAN_WORKER_HOME)
        to_rank(nb, worker, r);
    return worker != SPAN_WORKER_HOME;
}

void comm_routes_info(struct notebook *nb, struct request *r)
{
    const struct slice target = text_slice(request_content(r), "target_name");
    json_t *comms = comms_info(nb->comms.table, target);

    reply_json(nb, r, "comm_info_reply",
               comms ? json_pack("{s:s, s:o}", "status", "ok", "comms", comms) : NULL);
}

void comm_routes_release(struct notebook *nb)
{
    while (nb->comms.unanswered) {
        struct comm_unanswered *t = nb->comms.unanswered;

        nb->comms.unanswered = t->next;
        pace_destroy(t->pace);
        request_unref(t->r);
        free(t);
    }
    request_unref(nb->comms.closes);
    json_decref(nb->comms.closing);
    comms_destroy(nb->comms.table);
}
