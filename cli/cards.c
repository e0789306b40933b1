/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/cards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/runtime.h"

void cards_ask(const void *unused, int fd)
{
    struct err err = { "" };
    char *path = runtime_find("cellspan-gpus", &err);

    (void)unused;
    if (path && dup2(fd, STDOUT_FILENO) >= 0)
        execl(path, path, "--cards", (char *)NULL);
    free(path);
}

static json_t *line_json(struct slice *text)
{
    const struct slice line = slice_line(text);

    return json_loadb(line.n ? line.p : "", line.n, 0, NULL);
}

/* "0"; "0.1" is an instance of a GPU in MIG mode. */
static json_t *label_of(const json_t *gpu)
{
    const int index = (int)json_integer_value(json_object_get(gpu, "index"));
    const json_t *instance = json_object_get(gpu, "instance");
    char text[32];

    if (json_is_integer(instance) && json_integer_value(instance) >= 0)
        snprintf(text, sizeof text, "%d.%d", index, (int)json_integer_value(instance));
    else
        snprintf(text, sizeof text, "%d", index);
    return json_string(text);
}

static json_t *with_uuid(json_t *list, const char *uuid)
{
    json_t *one;
    size_t i;

    json_array_foreach (list, i, one) {
        const char *text = json_string_value(json_object_get(one, "uuid"));

        if (uuid && text && strcmp(text, uuid) == 0)
            return one;
    }
    return NULL;
}

static json_t *card(const json_t *gpu, json_t *readings, const json_t *leases)
{
    const char *uuid = json_string_value(json_object_get(gpu, "uuid"));
    const json_t *read = with_uuid(readings, uuid);

    return json_pack("{s:s?, s:o, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?}", "uuid", uuid, "label",
                     label_of(gpu), "name", json_object_get(gpu, "name"), "use",
                     json_object_get(read, "use"), "used", json_object_get(read, "used"), "total",
                     json_object_get(read, "total"), "others", json_object_get(read, "others"),
                     "held", uuid ? json_object_get(leases, uuid) : NULL);
}

/* Where no driver tells which GPUs there are, the leases do. */
static json_t *leased(json_t *leases)
{
    json_t *list = json_array(), *one;
    const char *uuid;

    json_object_foreach (leases, uuid, one)
        if (list && json_array_append_new(list, json_pack("{s:s, s:s, s:O}", "uuid", uuid, "label",
                                                          "?", "held", one)) < 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

json_t *cards_read(struct slice said)
{
    json_t *any = line_json(&said), *list = line_json(&said), *named = line_json(&said);
    json_t *read = line_json(&said), *one;
    json_t *of_gpus = json_object_get(named, "leases"), *gpus = json_object_get(list, "gpus");
    json_t *leases = of_gpus ? of_gpus : json_object_get(any, "leases");
    json_t *cards = json_array_size(gpus) ? json_array() : leased(leases);
    size_t i;

    json_array_foreach (gpus, i, one)
        if (cards &&
            json_array_append_new(cards, card(one, json_object_get(read, "gpus"), leases)) < 0) {
            json_decref(cards);
            cards = NULL;
        }
    json_decref(any);
    json_decref(list);
    json_decref(named);
    json_decref(read);
    return cards;
}
