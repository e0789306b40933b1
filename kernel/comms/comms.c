/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of comms, and the copies of widgets' states. */
#include <stdlib.h>
#include <string.h>

#include "kernel/comms/private.h"

static struct page_comm **bucket_of(const struct comm_table *t, struct slice id)
{
    uint32_t hash = 2166136261u;

    for (size_t k = 0; k < id.n; k++)
        hash = (hash ^ (unsigned char)id.p[k]) * 16777619u;
    return (struct page_comm **)&t->bucket[hash % BUCKETS];
}

struct comm_table *comms_create(void)
{
    return calloc(1, sizeof(struct comm_table));
}

static void comm_free(struct page_comm *c)
{
    if (c->parent)
        c->release(c->parent);
    json_decref(c->shown);
    widget_state_release(&c->state);
    widget_state_release(&c->waiting);
    free(c->id);
    free(c->target);
    free(c);
}

bool comms_tell_dropped(struct comm_table *t, uint64_t now_ns)
{
    if (now_ns < t->dropped_ns)
        return false;
    t->dropped_ns = now_ns + COMM_DROPPED_NS;
    return true;
}

void comms_destroy(struct comm_table *t)
{
    while (t && t->first)
        comms_close(t, t->first);
    free(t);
}

size_t comms_count(const struct comm_table *t)
{
    return t->n;
}

struct page_comm *comms_find(const struct comm_table *t, struct slice id)
{
    struct page_comm *c = *bucket_of(t, id);

    while (c && !slice_is(id, c->id))
        c = c->same_hash;
    return c;
}

struct page_comm *comms_open(struct comm_table *t, struct slice id, struct slice target,
                             uint32_t worker)
{
    struct page_comm *old = comms_find(t, id), *c, **at = bucket_of(t, id);

    if (memchr(id.p, '\0', id.n)) /* no client makes such an id; the table's are C strings */
        return NULL;
    c = calloc(1, sizeof *c);
    if (old)
        comms_close(t, old);
    if (!c || !(c->id = slice_copy(id)) || !(c->target = slice_copy(target))) {
        if (c)
            comm_free(c);
        return NULL;
    }
    c->worker = worker;
    c->same_hash = *at;
    *at = c;
    c->before = t->last;
    if (t->last)
        t->last->next = c;
    else
        t->first = c;
    t->last = c;
    t->n++;
    return c;
}

void comms_close(struct comm_table *t, struct page_comm *c)
{
    struct page_comm **at = bucket_of(t, slice_text(c->id));

    while (*at != c)
        at = &(*at)->same_hash;
    *at = c->same_hash;
    *(c->before ? &c->before->next : &t->first) = c->next;
    *(c->next ? &c->next->before : &t->last) = c->before;
    comms_give_up(t, c);
    t->copied -= c->state.size;
    t->n--;
    comm_free(c);
}

struct page_comm *comms_of(const struct comm_table *t, uint32_t worker,
                           const struct page_comm *after)
{
    struct page_comm *c = after ? after->next : t->first;

    while (c && c->worker != worker)
        c = c->next;
    return c;
}

json_t *comms_info(const struct comm_table *t, struct slice target)
{
    json_t *all = json_object();

    for (const struct page_comm *c = t->first; all && c; c = c->next)
        if (c->worker && (!target.n || slice_is(target, c->target)) &&
            json_object_set_new(all, c->id, json_pack("{s:s}", "target_name", c->target)) < 0) {
            json_decref(all);
            all = NULL;
        }
    return all;
}

/* ---- copies ---- */

void comms_copy(struct comm_table *t, struct page_comm *c, const json_t *data,
                const struct slice *buffers, size_t n, bool opens)
{
    if (strcmp(c->target, COMM_WIDGET) != 0 || (!opens && !c->copied))
        return;
    t->copied -= c->state.size;
    c->copied = widget_state_set(&c->state, data, buffers, n) == 0;
    if (t->copied + c->state.size > COMM_COPIES_MAX) {
        widget_state_release(&c->state);
        c->copied = false;
    }
    t->copied += c->state.size;
}

struct page_comm *comms_lacking(const struct comm_table *t, const struct page_comm *after)
{
    struct page_comm *c = after ? after->next : t->first;

    while (c && (c->copied || !c->worker || strcmp(c->target, COMM_WIDGET) != 0))
        c = c->next;
    return c;
}

static json_t *state_of(const struct page_comm *c)
{
    static const char *const names[] = { "model_name", "model_module", "model_module_version" };
    json_t *state = json_pack("{s:O}", "state", c->state.values);

    for (size_t k = 0; state && k < 3; k++) {
        char key[32] = "_";
        json_t *value = json_object_get(c->state.values, strcat(key, names[k]));

        if (json_object_set(state, names[k], value ? value : json_null()) < 0) {
            json_decref(state);
            state = NULL;
        }
    }
    return state;
}

static int states_text(struct slice id, json_t *states, json_t *paths, struct buf *content)
{
    json_t *all = json_pack("{s:s%, s:{s:s, s:O, s:O}}", "comm_id", id.p, id.n, "data", "method",
                            "update_states", "states", states, "buffer_paths", paths);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    const int rc = text ? buf_add_text(content, text) : -1;

    free(text);
    json_decref(all);
    return rc;
}

int comms_states(const struct comm_table *t, struct slice id, struct buf *content,
                 struct slice **list, size_t *n)
{
    json_t *states = json_object(), *paths = json_array();
    size_t all = 0;
    int rc = states && paths ? 0 : -1;

    *n = 0;
    for (const struct page_comm *c = t->first; c; c = c->next)
        all += c->state.n;
    if (!(*list = calloc(all + 1, sizeof **list)))
        rc = -1;
    for (const struct page_comm *c = t->first; rc == 0 && c; c = c->next) {
        if (!c->worker || strcmp(c->target, COMM_WIDGET) != 0 || !c->copied)
            continue;
        if (json_object_set_new(states, c->id, state_of(c)) < 0 ||
            widget_state_list(&c->state, c->id, paths, *list, n) < 0)
            rc = -1;
    }
    if (rc == 0)
        rc = states_text(id, states, paths, content);
    json_decref(states);
    json_decref(paths);
    return rc;
}
