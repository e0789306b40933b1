/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/gpu/gpu_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpus_release(struct gpus *g)
{
    free(g->v);
    memset(g, 0, sizeof *g);
}

int gpus_add(struct gpus *g, const struct gpu *one, struct err *err)
{
    struct gpu *v;

    if (g->n >= GPUS_MAX)
        return err_set(err, "more than %u GPUs: name fewer in CUDA_VISIBLE_DEVICES", GPUS_MAX);
    if (!(v = realloc(g->v, (g->n + 1) * sizeof *v)))
        return err_set(err, "out of memory for the list of GPUs");
    g->v = v;
    v[g->n++] = *one;
    return 0;
}

const struct gpu *gpus_find(const struct gpus *g, const char *uuid)
{
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->v[i].uuid, uuid) == 0)
            return &g->v[i];
    return NULL;
}

/* The length of a short UUID: the kind and four digits distinguish the GPUs of a node. */
static int short_length(const char *uuid)
{
    const char *dash = strchr(uuid, '-');
    const size_t n = strlen(uuid), want = dash ? (size_t)(dash - uuid) + 5 : 8;

    return (int)(n < want ? n : want);
}

const char *gpu_label(const struct gpu *one, char out[static GPU_LABEL])
{
    char number[32] = "";

    if (one->instance >= 0)
        snprintf(number, sizeof number, " MIG %d", one->instance);
    snprintf(out, GPU_LABEL, "GPU %u%s (%.*s…, %s)", one->index, number, short_length(one->uuid),
             one->uuid, one->name);
    return out;
}

/* ---- JSON ---- */

static json_t *to_json(const struct gpu *one)
{
    return json_pack("{s:s, s:s, s:i, s:I, s:o, s:b, s:s, s:s, s:s, s:i, s:b}", "uuid", one->uuid,
                     "name", one->name, "index", (int)one->index, "memory", (json_int_t)one->memory,
                     "numa", one->numa < 0 ? json_null() : json_integer(one->numa), "mig",
                     one->instance >= 0, "pci", one->pci, "cpus", one->cpus, "parent", one->parent,
                     "instance", one->instance, "exclusive", one->exclusive);
}

json_t *gpus_to_json(const struct gpus *g)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < g->n; i++)
        if (json_array_append_new(list, to_json(&g->v[i])) < 0) {
            json_decref(list);
            list = NULL;
        }
    if (!list)
        return NULL;
    return json_pack("{s:o, s:i, s:b, s:s, s:s?}", "gpus", list, "all", (int)g->all, "numbered",
                     g->numbered, "driver", g->driver, "why", g->why[0] ? g->why : NULL);
}

static void copy_text(char *to, size_t size, const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    snprintf(to, size, "%s", text ? text : "");
}

/* The number of this name, or `missing`. */
static int int_of(const json_t *object, const char *name, int missing)
{
    const json_t *v = json_object_get(object, name);

    return json_is_integer(v) ? (int)json_integer_value(v) : missing;
}

static void from_json(struct gpu *one, const json_t *o)
{
    *one = (struct gpu){ .index = (unsigned)int_of(o, "index", 0),
                         .instance = int_of(o, "instance", -1),
                         .gi = -1,
                         .ci = -1,
                         .numa = int_of(o, "numa", -1) };
    one->exclusive = json_is_true(json_object_get(o, "exclusive"));
    one->memory = (uint64_t)json_integer_value(json_object_get(o, "memory"));
    copy_text(one->uuid, sizeof one->uuid, o, "uuid");
    copy_text(one->name, sizeof one->name, o, "name");
    copy_text(one->pci, sizeof one->pci, o, "pci");
    copy_text(one->cpus, sizeof one->cpus, o, "cpus");
    copy_text(one->parent, sizeof one->parent, o, "parent");
}

int gpus_from_json(struct gpus *g, const json_t *json, struct err *err)
{
    const json_t *list = json_object_get(json, "gpus");
    struct gpus fresh = { .all = (unsigned)int_of(json, "all", 0),
                          .numbered = json_is_true(json_object_get(json, "numbered")) };

    if (!json_is_array(list))
        return err_set(err, "the list of GPUs is not one");
    copy_text(fresh.driver, sizeof fresh.driver, json, "driver");
    copy_text(fresh.why, sizeof fresh.why, json, "why");
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct gpu one;

        from_json(&one, json_array_get(list, i));
        if (gpus_add(&fresh, &one, err) < 0) {
            gpus_release(&fresh);
            return -1;
        }
    }
    gpus_release(g);
    *g = fresh;
    return 0;
}
