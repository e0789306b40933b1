/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/gpu/allocations.h"

#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "worker/agent/gpu/lease.h"
#include "worker/agent/gpu/turn.h"

struct gpu_allocations *gpu_open(struct loop *loop, struct err *err)
{
    struct gpu_allocations *d = calloc(1, sizeof *d);

    if (!d)
        return err_null(err, "out of memory");
    d->loop = loop;
    d->folder = -1;
    if ((d->client = probe_client_create(loop, err)))
        return d;
    free(d);
    return NULL;
}

void gpu_close(struct gpu_allocations *d)
{
    if (!d)
        return;
    probe_client_destroy(d->client);
    while (d->unfinished)
        d->unfinished->end(d->unfinished);
    while (d->allocations)
        gpu_release(d, d->allocations->worker);
    watch_stop(d->keeper);
    watch_stop(d->renewer);
    gpus_release(&d->gpus);
    fd_close(&d->folder);
    turn_close(d->turn);
    free(d->quota_place);
    free(d);
}

/* ---- leases ---- */

int allocations_folder(struct gpu_allocations *d, struct err *err)
{
    if (d->folder >= 0 && !lease_folder_is_there(d->folder))
        fd_close(&d->folder);
    if (d->folder < 0)
        d->folder = lease_folder(err);
    return d->folder;
}

/* ---- the GPUs of one worker ---- */

struct allocation *allocations_find(const struct gpu_allocations *d, uint32_t worker)
{
    struct allocation *s = d->allocations;

    while (s && s->worker != worker)
        s = s->next;
    return s;
}

unsigned allocations_uses(const struct gpu_allocations *d, const char *uuid)
{
    unsigned uses = 0;

    for (const struct allocation *s = d->allocations; s; s = s->next)
        for (unsigned i = 0; !s->parked && i < s->n; i++)
            uses += strcmp(s->hold[i].uuid, uuid) == 0;
    return uses;
}

bool gpu_has(const struct gpu_allocations *d, uint32_t worker)
{
    return allocations_find(d, worker) != NULL;
}

static void allocation_destroy(struct allocation *s)
{
    for (unsigned i = 0; i < s->n; i++)
        lease_release(&s->hold[i].fd);
    free(s);
}

void gpu_release(struct gpu_allocations *d, uint32_t worker)
{
    for (struct allocation **at = &d->allocations; *at; at = &(*at)->next)
        if ((*at)->worker == worker) {
            struct allocation *s = *at;

            *at = s->next;
            allocation_destroy(s);
            return;
        }
}

/* ---- as questions have them ---- */

json_t *allocation_uuids(const struct allocation *s)
{
    json_t *list = json_array();

    for (unsigned i = 0; s && !s->parked && list && i < s->n; i++)
        if (json_array_append_new(list, json_string(s->hold[i].uuid)) < 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

json_t *allocations_workers(const struct gpu_allocations *d, const struct gpu_worker *worker,
                            size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < n && i < GPU_GAUGE_MAX; i++)
        if (json_array_append_new(
                list, json_pack("{s:I, s:I, s:s, s:o}", "worker", (json_int_t)worker[i].worker,
                                "pid", (json_int_t)worker[i].pid, "who", worker[i].who, "gpus",
                                allocation_uuids(allocations_find(d, worker[i].worker)))) < 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}
