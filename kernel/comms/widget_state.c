/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a widget, or a part of it. */
#include <stdlib.h>
#include <string.h>

#include "base/rows.h"
#include "kernel/comms/private.h"

#define NODE 48u /* bytes of a JSON value besides its text, roughly */

static size_t size_of(const json_t *value)
{
    size_t sum = NODE, k;
    const char *key;
    json_t *item;

    if (json_is_string(value))
        return NODE + json_string_length(value);
    json_array_foreach (value, k, item)
        sum += size_of(item);
    if (json_is_object(value))
        json_object_foreach ((json_t *)value, key, item)
            sum += NODE + strlen(key) + size_of(item);
    return sum;
}

static void bytes_release(struct widget_bytes *b)
{
    json_decref(b->path);
    free(b->p);
}

void widget_state_release(struct widget_state *s)
{
    json_decref(s->values);
    for (size_t k = 0; k < s->n; k++)
        bytes_release(&s->bytes[k]);
    free(s->bytes);
    *s = (struct widget_state){ 0 };
}

static const char *name_of(const json_t *path)
{
    const char *name = json_string_value(json_array_get(path, 0));

    return name ? name : "";
}

/* Removes the binary parts of a value before it is replaced. */
static void drop_bytes(struct widget_state *s, const char *name)
{
    for (size_t k = 0; k < s->n;) {
        if (strcmp(name_of(s->bytes[k].path), name) != 0) {
            k++;
            continue;
        }
        s->size -= s->bytes[k].n;
        bytes_release(&s->bytes[k]);
        rows_remove(s->bytes, &s->n, sizeof *s->bytes, k);
    }
}

static int set_value(struct widget_state *s, const char *name, json_t *value)
{
    const json_t *old = json_object_get(s->values, name);

    s->size += size_of(value) + NODE + strlen(name);
    s->size -= old ? size_of(old) + NODE + strlen(name) : 0;
    drop_bytes(s, name);
    return json_object_set(s->values, name, value);
}

/* Bytes at the top of the state take the place of the value. */
static void replace_value(struct widget_state *s, const char *name)
{
    const json_t *old = json_object_get(s->values, name);

    drop_bytes(s, name);
    s->size -= old ? size_of(old) + NODE + strlen(name) : 0;
    (void)json_object_del(s->values, name);
}

static int add_bytes(struct widget_state *s, json_t *path, struct slice from)
{
    struct widget_bytes *b = rows_add(&s->bytes, &s->n, &s->room, sizeof *b);

    if (!b)
        return -1;
    b->path = json_incref(path);
    b->n = from.n;
    if (!(b->p = malloc(from.n ? from.n : 1)))
        return -1;
    if (from.n)
        memcpy(b->p, from.p, from.n);
    s->size += from.n;
    return 0;
}

static int set_all(struct widget_state *s, const json_t *data, const struct slice *buffers,
                   size_t n)
{
    const json_t *paths = json_object_get(data, "buffer_paths");
    json_t *values = json_object_get(data, "state"), *value, *path;
    const char *name;
    size_t k;

    if (!json_is_object(values) || json_array_size(paths) != n ||
        !(s->values || (s->values = json_object())))
        return -1;
    json_object_foreach (values, name, value)
        if (set_value(s, name, value) < 0)
            return -1;
    json_array_foreach (paths, k, path) {
        if (json_array_size(path) == 1)
            replace_value(s, name_of(path));
        if (!json_is_array(path) || add_bytes(s, path, buffers[k]) < 0)
            return -1;
    }
    return 0;
}

int widget_state_set(struct widget_state *s, const json_t *data, const struct slice *buffers,
                     size_t n)
{
    if (set_all(s, data, buffers, n) == 0)
        return 0;
    widget_state_release(s);
    return -1;
}

int widget_state_list(const struct widget_state *s, const char *head, json_t *paths,
                      struct slice *list, size_t *n)
{
    for (size_t k = 0; k < s->n; k++) {
        json_t *path = json_array();
        int rc = head ? json_array_append_new(path, json_string(head)) : 0;

        if (rc == 0)
            rc = json_array_extend(path, s->bytes[k].path);
        if (rc < 0 || json_array_append(paths, path) < 0)
            rc = -1;
        json_decref(path);
        if (rc < 0)
            return -1;
        list[(*n)++] = slice_of(s->bytes[k].p, s->bytes[k].n);
    }
    return 0;
}
