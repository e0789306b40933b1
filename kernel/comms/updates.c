/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates of widgets that wait. A widget's own messages, its opening and its closing never wait. */
#include <stdlib.h>

#include "kernel/comms/private.h"

bool comms_may_send(struct comm_table *t, uint64_t now_ns)
{
    const uint64_t slot = now_ns / COMM_SLOT_NS;

    if (slot != t->slot) {
        t->slot = slot;
        t->sent = 0;
    }
    if (t->sent >= COMM_SLOT_MAX)
        return false;
    t->sent++;
    return true;
}

bool comms_waits(const struct comm_table *t)
{
    return t->waiting != NULL;
}

struct page_comm *comms_waiting(const struct comm_table *t, uint32_t worker)
{
    struct page_comm *c = t->waiting;

    while (c && worker && c->worker != worker)
        c = c->next_waiting;
    return c;
}

void comms_give_up(struct comm_table *t, struct page_comm *c)
{
    struct page_comm *before = NULL;

    if (!c->waits)
        return;
    c->waits = false;
    for (struct page_comm *at = t->waiting; at; before = at, at = at->next_waiting) {
        if (at != c)
            continue;
        if (before)
            before->next_waiting = c->next_waiting;
        else
            t->waiting = c->next_waiting;
        if (t->waiting_last == c)
            t->waiting_last = before;
        c->next_waiting = NULL;
        break;
    }
    widget_state_release(&c->waiting);
}

bool comms_may_merge(const struct page_comm *c, const json_t *data)
{
    json_t *values = json_object_get(data, "state"), *value;
    const char *name;

    json_object_foreach (values, name, value) {
        const json_t *old = json_object_get(c->waiting.values, name);

        if (json_is_null(value) && old && !json_is_null(old))
            return false;
    }
    return true;
}

int comms_wait(struct comm_table *t, struct page_comm *c, const json_t *data,
               const struct slice *buffers, size_t n)
{
    if (widget_state_set(&c->waiting, data, buffers, n) < 0) {
        comms_give_up(t, c);
        return -1;
    }
    if (c->waits)
        return 0;
    c->waits = true;
    if (t->waiting_last)
        t->waiting_last->next_waiting = c;
    else
        t->waiting = c;
    t->waiting_last = c;
    return 0;
}

int comms_take(struct comm_table *t, struct page_comm *c, struct buf *content,
               struct widget_state *s, struct slice **list)
{
    json_t *paths = json_array(), *all;
    size_t n = 0;
    char *text = NULL;
    int rc = -1;

    *list = calloc(c->waiting.n + 1, sizeof **list);
    if (*list && paths && widget_state_list(&c->waiting, NULL, paths, *list, &n) == 0 &&
        (all = json_pack("{s:{s:s, s:O, s:O}, s:s}", "data", "method", "update", "state",
                         c->waiting.values, "buffer_paths", paths, "comm_id", c->id))) {
        text = json_dumps(all, JSON_COMPACT);
        json_decref(all);
        rc = text ? buf_add_text(content, text) : -1;
    }
    free(text);
    json_decref(paths);
    *s = c->waiting;
    c->waiting = (struct widget_state){ 0 };
    comms_give_up(t, c);
    return rc;
}

uint64_t comms_slot_ns(const struct comm_table *t)
{
    return (t->slot + 1) * COMM_SLOT_NS;
}

uint64_t comms_due_ns(const struct comm_table *t)
{
    return t->waiting ? comms_slot_ns(t) : UINT64_MAX;
}
