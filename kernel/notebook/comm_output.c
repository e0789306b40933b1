/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm messages of home and ranks: notes comms and widgets' states, and publishes. Under pressure,
 * updates of a widget wait and become one; all other messages leave at once, after the updates that
 * their process has sent before. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernel/notebook/notebook.h"
#include "protocol/json_repair.h"

#define VIEW      "application/vnd.jupyter.widget-view+json" /* the type of a display of a widget */
#define SHOWN_MAX 64 /* displays of a widget that are remembered: the last ones */

void comm_output_send(struct notebook *nb, const struct request *parent, const char *type,
                      const struct content *p)
{
    if (nb->output_limit && strcmp(type, "comm_open") != 0) /* the server does not count these */
        output_limit_count_comm(nb->output_limit);
    nb->ops.publish(nb->ops.arg, parent, type, p);
}

/* ---- updates that wait ---- */

static bool may_send(struct notebook *nb)
{
    nb->comms.full = nb->output_limit && !output_limit_fits_comm(nb->output_limit);
    return !nb->comms.full && comms_may_send(nb->comms.table, notebook_now(nb));
}

static void unref(void *request)
{
    request_unref(request);
}

static void set_parent(struct page_comm *c, const struct request *parent)
{
    request_unref(c->parent);
    c->parent = parent ? request_ref((struct request *)parent) : NULL;
    c->release = unref;
}

static void send_waiting(struct notebook *nb, struct page_comm *c)
{
    struct buf content = BUF_INIT;
    struct widget_state kept;
    struct slice *list;
    const int rc = comms_take(nb->comms.table, c, &content, &kept, &list);
    const struct content p = { .content = buf_slice(&content), .buffers = list, .n = kept.n };

    if (rc == 0)
        comm_output_send(nb, c->parent, "comm_msg", &p);
    else
        log_error("comms", "an update of a widget is lost: out of memory");
    set_parent(c, NULL);
    widget_state_release(&kept);
    free(list);
    buf_release(&content);
}

void comm_output_flush(struct notebook *nb, uint32_t worker)
{
    struct page_comm *c;

    while ((c = comms_waiting(nb->comms.table, worker)))
        send_waiting(nb, c);
}

static void send_json(struct notebook *nb, const struct request *parent, const char *type,
                      json_t *content)
{
    if (nb->output_limit)
        output_limit_count_comm(nb->output_limit);
    publish_json(nb, parent, type, content);
}

/* A rank that ends may have thousands of comms: pages are told at the rate of updates. */
static void send_closed(struct notebook *nb)
{
    struct comm_list *l = &nb->comms;
    size_t n = json_array_size(l->closing);

    while (n && may_send(nb))
        send_json(nb, l->closes, "comm_close",
                  json_pack("{s:O, s:{}}", "comm_id", json_array_get(l->closing, --n), "data"));
    while (json_array_size(l->closing) > n)
        (void)json_array_remove(l->closing, json_array_size(l->closing) - 1);
    if (n)
        return;
    json_decref(l->closing);
    request_unref(l->closes);
    l->closing = NULL;
    l->closes = NULL;
}

void comm_output_tick(struct notebook *nb)
{
    struct page_comm *c;

    while ((c = comms_waiting(nb->comms.table, 0)) && may_send(nb))
        send_waiting(nb, c);
    if (!c && nb->comms.closing)
        send_closed(nb);
}

/* All updates of a comm that wait belong to one request. */
static void belong_to(struct notebook *nb, struct page_comm *c, const struct request *parent)
{
    if (c->parent == parent)
        return;
    if (c->waits)
        comm_output_flush(nb, c->worker);
    set_parent(c, parent);
}

/* true: the update waits, alone or with earlier ones. */
static bool waits(struct notebook *nb, struct page_comm *c, const struct request *parent,
                  const json_t *data, const struct published *p)
{
    const struct content *q = &p->content;

    if (strcmp(c->target, COMM_WIDGET) != 0 || strcmp(text_field(data, "method"), "update") != 0 ||
        q->metadata.n > 2)
        return false;
    if (!comms_waits(nb->comms.table) && may_send(nb))
        return false;
    belong_to(nb, c, parent);
    if (!comms_may_merge(c, data))
        comm_output_flush(nb, c->worker);
    return comms_wait(nb->comms.table, c, data, q->buffers, q->n) == 0;
}

/* ---- messages ---- */

static bool is_state(const json_t *data)
{
    const char *method = text_field(data, "method");

    return strcmp(method, "update") == 0 || strcmp(method, "echo_update") == 0;
}

static void opened(struct notebook *nb, uint32_t worker, const json_t *content,
                   const struct content *p)
{
    struct page_comm *c = comms_open(nb->comms.table, text_slice(content, "comm_id"),
                                     text_slice(content, "target_name"), worker);

    if (c)
        comms_copy(nb->comms.table, c, json_object_get(content, "data"), p->buffers, p->n, true);
    else
        log_error("comms", "a comm is not noted: out of memory, or its id has a NUL");
}

/* true: it waits. */
static bool note(struct notebook *nb, uint32_t worker, const struct request *parent,
                 const json_t *content, const struct published *p)
{
    const json_t *data = json_object_get(content, "data");
    struct page_comm *c = comms_find(nb->comms.table, text_slice(content, "comm_id"));

    if (strcmp(p->type, "comm_open") == 0)
        opened(nb, worker, content, &p->content);
    else if (c && strcmp(p->type, "comm_close") == 0)
        comms_close(nb->comms.table, c);
    else if (c && is_state(data)) {
        comms_copy(nb->comms.table, c, data, p->content.buffers, p->content.n, false);
        return waits(nb, c, parent, data, p);
    }
    return false;
}

/* Integers that are too large for the parser become what they are to a page: numbers. */
static json_t *parsed(struct slice text)
{
    json_t *content = text_parse(text);

    return content ? content : json_parse(text, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
}

void comm_output_take(struct notebook *nb, uint32_t worker, const struct request *parent,
                      const struct published *p)
{
    json_t *content = parsed(p->content.content);
    const bool update = is_state(json_object_get(content, "data"));

    if (!update) /* before a comm_close, which forgets what waits */
        comm_output_flush(nb, worker);
    if (!note(nb, worker, parent, content, p)) {
        comm_output_flush(nb, worker);
        comm_output_send(nb, parent, p->type, &p->content);
    }
    json_decref(content);
}

/* ---- displays of widgets, and a process that ends ---- */

static bool holds(struct slice text, const char *wanted)
{
    const size_t n = strlen(wanted);
    const char *at;

    for (; text.n >= n && (at = memchr(text.p, wanted[0], text.n - n + 1));
         text = slice_of(at + 1, text.n - (size_t)(at + 1 - text.p)))
        if (memcmp(at, wanted, n) == 0)
            return true;
    return false;
}

static bool has(const json_t *list, const json_t *id)
{
    const json_t *one;
    size_t k;

    json_array_foreach (list, k, one)
        if (json_equal(one, id))
            return true;
    return false;
}

void comm_output_display(struct notebook *nb, uint32_t worker, const struct published *p)
{
    json_t *content, *view, *id;
    struct page_comm *c;

    comm_output_flush(nb, worker);
    if (!comms_count(nb->comms.table) || !holds(p->content.content, VIEW) ||
        !(content = text_parse(p->content.content)))
        return;
    view = json_object_get(json_object_get(content, "data"), VIEW);
    id = json_object_get(json_object_get(content, "transient"), "display_id");
    c = comms_find(nb->comms.table, text_slice(view, "model_id"));
    if (c && json_is_string(id) && (c->shown || (c->shown = json_array())) && !has(c->shown, id)) {
        (void)json_array_append(c->shown, id);
        if (json_array_size(c->shown) > SHOWN_MAX)
            (void)json_array_remove(c->shown, 0);
    }
    json_decref(content);
}

/* A display becomes text. */
static void replace(struct notebook *nb, const struct request *parent, const json_t *id,
                    struct slice text)
{
    struct buf content = BUF_INIT;

    if (nb->output_limit)
        output_limit_count_comm(nb->output_limit);
    if (jupyter_display(&content, text, slice_of(NULL, 0), json_string_value(id)) == 0)
        publish(nb, parent, "update_display_data", buf_slice(&content));
    buf_release(&content);
}

/* Displays of a widget become text, which says why. */
static void show_text(struct notebook *nb, const struct page_comm *c, const struct request *parent,
                      const char *why)
{
    struct buf text = BUF_INIT;
    size_t k;
    json_t *id;

    if (!json_array_size(c->shown))
        return;
    if (comms_text(nb->comms.table, c, &text) < 0)
        buf_clear(&text);
    if (buf_addf(&text, "%s(%s)", text.n ? " " : "", why) < 0)
        log_warn("comms", "a widget is not shown as text: out of memory");
    json_array_foreach (c->shown, k, id)
        replace(nb, parent, id, buf_slice(&text));
    buf_release(&text);
}

size_t comm_output_gone(struct notebook *nb, uint32_t worker, const struct request *parent,
                        const char *why)
{
    struct comm_list *l = &nb->comms;
    struct page_comm *c = comms_of(l->table, worker, NULL), *next;
    size_t n = 0;

    if (!c)
        return 0;
    comm_output_flush(nb, worker);
    for (c = comms_of(nb->comms.table, worker, NULL); c; c = comms_of(nb->comms.table, worker, c))
        show_text(nb, c, parent, why); /* before any is closed: texts are made of several */
    for (c = comms_of(nb->comms.table, worker, NULL); c; c = next, n++) {
        next = comms_of(nb->comms.table, worker, c);
        if (!l->closing)
            l->closing = json_array();
        if (json_array_append_new(l->closing, json_string(c->id)) < 0)
            log_error("comms", "pages are not told that a comm is closed: out of memory");
        comms_close(l->table, c);
    }
    request_unref(l->closes);
    l->closes = parent ? request_ref((struct request *)parent) : NULL;
    comm_output_tick(nb);
    return n;
}

void comm_output_forget(struct notebook *nb, uint32_t worker)
{
    struct page_comm *c;

    while ((c = comms_of(nb->comms.table, worker, NULL)))
        comms_close(nb->comms.table, c);
}
