/* SPDX-License-Identifier: BSD-3-Clause */
/* The ids of DAP. A worker counts from 1; clients see slot * 2^24 + that number. Home's slot is 0,
 * so its ids are as they are. */
#include "kernel/debug/private.h"

#include <string.h>

#define OWN ((json_int_t)1 << 24)

json_int_t id_out(json_int_t own, unsigned slot)
{
    return own > 0 && own < OWN ? own + slot * OWN : own > 0 && slot == 0 ? own : 0;
}

static bool is_id(const char *name)
{
    static const char *const names[] = {
        "threadId",        "frameId",    "variablesReference",
        "sourceReference", "srcFrameId", "namedVariablesReference"
    };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcmp(name, names[k]) == 0)
            return true;
    return false;
}

/* In lists of these names, `id` is an id too. */
static bool has_ids(const char *name)
{
    return strcmp(name, "stackFrames") == 0 || strcmp(name, "threads") == 0 ||
           strcmp(name, "breakpoints") == 0;
}

static void rows_out(json_t *rows, unsigned slot)
{
    size_t k;
    json_t *row;

    json_array_foreach (rows, k, row) {
        json_t *id = json_object_get(row, "id");

        if (json_is_integer(id))
            json_integer_set(id, id_out(json_integer_value(id), slot));
    }
}

void ids_out(json_t *value, unsigned slot)
{
    const char *name;
    json_t *item;
    size_t k;

    if (slot == 0)
        return;
    json_object_foreach (value, name, item) {
        if (json_is_integer(item) && is_id(name))
            json_integer_set(item, id_out(json_integer_value(item), slot));
        else if (json_is_array(item) && has_ids(name))
            rows_out(item, slot);
        ids_out(item, slot);
    }
    json_array_foreach (value, k, item)
        ids_out(item, slot);
}

long ids_in(json_t *arguments)
{
    const char *name;
    json_t *item;
    long slot = -1;

    json_object_foreach (arguments, name, item) {
        if (json_is_integer(item) && is_id(name) && json_integer_value(item) > 0) {
            slot = (long)(json_integer_value(item) / OWN);
            json_integer_set(item, json_integer_value(item) % OWN);
        } else if (json_is_object(item)) {
            const long inner = ids_in(item);

            slot = inner >= 0 ? inner : slot;
        }
    }
    return slot;
}
