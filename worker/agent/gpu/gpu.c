/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.c - see gpu.h: the list of GPUs and their readings. assign.c assigns GPUs, death_report.c
 * reports errors. */
#include "worker/agent/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings.h"
#include "worker/agent/gpu/allocations.h"
#include "worker/agent/gpu/lease.h"

/* eight GPUs without persistence mode take about 20 s to start */
#define QUERY_NS (60 * NS_PER_S)
#define GAUGE_NS (5 * NS_PER_S)

bool gpu_likely(const struct gpu_allocations *d)
{
    if (d->known)
        return d->gpus.all > 0;
    return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0 ||
           setting_text(SETTING_NVML_LIBRARY);
}

/* ---- the list ---- */

struct waiter {
    struct gpu_allocations *allocations;
    gpu_known_f known; /* either this one */
    gpu_json_f json;   /* or this one is set */
    void *arg;
};

static struct waiter *waiter_create(struct gpu_allocations *d, void *arg)
{
    struct waiter *w = calloc(1, sizeof *w);

    if (w) {
        w->allocations = d;
        w->arg = arg;
    }
    return w;
}

static void say(const json_t *json, gpu_json_f f, void *arg)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    f(arg, slice_text(text ? text : "{\"gpus\":null,\"driver\":\"\",\"why\":\"out of memory\"}"));
    free(text);
}

static void say_why(const char *why, gpu_json_f f, void *arg)
{
    json_t *json = json_pack("{s:[], s:[], s:s, s:s}", "gpus", "workers", "driver", "", "why", why);

    say(json, f, arg);
    json_decref(json);
}

/* Answers that there may be GPUs, but which is not known: the kernel must ask again. */
static void say_unknown(const char *why, gpu_json_f f, void *arg)
{
    json_t *json = json_pack("{s:n, s:s, s:s}", "gpus", "driver", "", "why", why);

    say(json, f, arg);
    json_decref(json);
}

/* Who else holds the GPU, or null. Our kernel already knows what our own workers hold. */
static json_t *leased_by(struct gpu_allocations *d, const char *uuid)
{
    char holder[LEASE_HOLDER];
    struct err err = { "" };

    if (allocations_uses(d, uuid) || allocations_folder(d, &err) < 0 ||
        !lease_holder(d->folder, uuid, false, holder))
        return json_null();
    return json_string(holder);
}

static json_t *list_to_json(struct gpu_allocations *d)
{
    json_t *root = gpus_to_json(&d->gpus), *list = json_object_get(root, "gpus");

    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *one = json_array_get(list, i);

        json_object_del(one, "cpus");
        if (json_object_set_new(one, "leased_by", leased_by(d, d->gpus.v[i].uuid)) < 0) {
            json_decref(root);
            return NULL;
        }
    }
    if (root &&
        (json_object_set_new(root, "quota", quota_json(d)) < 0 || waiting_add(d, root) < 0)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static void answered(void *arg, const json_t *said, const char *why)
{
    struct waiter *w = arg;
    struct gpu_allocations *d = w->allocations;
    struct err err = { "" };
    json_t *json;

    if (said && gpus_from_json(&d->gpus, said, &err) < 0)
        why = err.text;
    else
        d->known = d->known || said;
    if (why[0] && !d->gpus.n)
        snprintf(d->gpus.why, sizeof d->gpus.why, "%.*s", (int)sizeof d->gpus.why - 1, why);
    if (why[0])
        log_warn("gpu", "%s", why);
    if (w->known) {
        w->known(w->arg);
    } else if (!d->known) {
        say_unknown(why, w->json, w->arg);
    } else {
        json = list_to_json(d);
        say(json, w->json, w->arg);
        json_decref(json);
    }
    free(w);
}

static int query(struct gpu_allocations *d, struct waiter *w, struct err *err)
{
    if (!w)
        return err_set(err, "out of memory");
    if (probe_client_ask(d->client, json_pack("{s:s}", "ask", "list"), QUERY_NS, answered, w,
                         err) == 0)
        return 0;
    free(w);
    return -1;
}

int gpu_query(struct gpu_allocations *d, gpu_known_f f, void *arg, struct err *err)
{
    struct waiter *w = waiter_create(d, arg);

    if (w)
        w->known = f;
    return query(d, w, err);
}

void gpu_list(struct gpu_allocations *d, gpu_json_f f, void *arg)
{
    struct waiter *w = waiter_create(d, arg);
    struct err err = { "" };

    if (w)
        w->json = f;
    if (query(d, w, &err) < 0)
        say_unknown(err.text, f, arg);
}

/* ---- gauges ---- */

static void gauged(void *arg, const json_t *said, const char *why)
{
    struct waiter *w = arg;

    if (said)
        say(said, w->json, w->arg);
    else
        say_why(why, w->json, w->arg);
    free(w);
}

void gpu_gauges(struct gpu_allocations *d, const struct gpu_worker *worker, size_t n, gpu_json_f f,
                void *arg)
{
    struct waiter *w = waiter_create(d, arg);
    json_t *workers = w ? allocations_workers(d, worker, n) : NULL;
    json_t *ask = workers ? json_pack("{s:s, s:o}", "ask", "read", "workers", workers) : NULL;
    struct err err = { "" };

    if (w)
        w->json = f;
    if (w && probe_client_ask(d->client, ask, GAUGE_NS, gauged, w, &err) == 0)
        return;
    free(w);
    say_why(err.text[0] ? err.text : "out of memory", f, arg);
}
