/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c - see driver.h: Xids and ECC errors since a worker got its GPUs. From the first mark on
 * the driver stores events for us. We fetch them when a mark is set and when a worker has died, so
 * nothing has to wait for events. */
#include "worker/agent/gpu/driver.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define WAIT_MS   1u
#define PER_DRAIN 1024 /* a limit, in case a GPU raises errors without end */

/* Registers for events of all whole GPUs, without types that a GPU does not support (often ECC). */
static void register_all(struct gpu_driver *d)
{
    const uint64_t wanted = NVML_EVENT_SINGLE_BIT | NVML_EVENT_DOUBLE_BIT | NVML_EVENT_XID;

    for (size_t i = 0; i < d->n_found; i++) {
        unsigned long long can = wanted;

        if (d->found[i].parent[0]) /* events are those of whole GPUs */
            continue;
        if (d->nvml.event_types && d->nvml.event_types(d->found[i].device, &can) != NVML_OK)
            can = NVML_EVENT_XID;
        if ((can & wanted) &&
            d->nvml.event_register(d->found[i].device, can & wanted, d->events) != NVML_OK)
            log_info("gpu", "%s tells no events", d->found[i].uuid);
    }
}

/* Registers for GPUs in MIG mode, which are not in the list: finds them by their instances. */
static void register_parents(struct gpu_driver *d)
{
    for (size_t i = 0; i < d->n_found; i++) {
        struct nvml_device *parent = NULL;

        if (!d->found[i].parent[0] ||
            (i && strcmp(d->found[i].parent, d->found[i - 1].parent) == 0))
            continue;
        if (!d->nvml.mig_parent || d->nvml.mig_parent(d->found[i].device, &parent) != NVML_OK ||
            d->nvml.event_register(parent, NVML_EVENT_XID, d->events) != NVML_OK)
            log_info("gpu", "%s tells no events", d->found[i].parent);
    }
}

static void open_events(struct gpu_driver *d)
{
    const struct nvml *n = &d->nvml;

    if (d->events || !d->open || !n->event_set || !n->event_register || !n->event_wait ||
        !n->event_free)
        return;
    if (n->event_set(&d->events) != NVML_OK) {
        d->events = NULL;
        return;
    }
    register_all(d);
    register_parents(d);
}

static void keep(struct gpu_driver *d, const struct nvml_event *e)
{
    struct event *to = &d->event[d->n_events % DRIVER_EVENTS];

    *to = (struct event){
        .type = e->type, .data = e->data, .gi = e->gpu_instance, .number = d->n_events + 1
    };
    if (!e->device || d->nvml.uuid(e->device, to->uuid, sizeof to->uuid) != NVML_OK)
        /* a GPU that fell off the bus has no UUID any more, but we remember it */
        for (size_t i = 0; i < d->n_found; i++)
            if (d->found[i].device == e->device)
                memcpy(to->uuid, d->found[i].uuid, sizeof to->uuid);
    d->n_events++;
}

static void drain(struct gpu_driver *d)
{
    for (int i = 0; d->events && i < PER_DRAIN; i++) {
        struct nvml_event e = { .gpu_instance = UINT32_MAX, .compute_instance = UINT32_MAX };

        if (d->nvml.event_wait(d->events, &e, WAIT_MS) != NVML_OK)
            return;
        keep(d, &e);
    }
}

/* ---- marks ---- */

/* Drops the worker's old marks, and the oldest marks if there is no room for n more (events_since
 * was never called for them). */
static void make_room(struct gpu_driver *d, unsigned worker, size_t n)
{
    size_t kept = 0, surplus = d->n_marks + n > DRIVER_MARKS ? d->n_marks + n - DRIVER_MARKS : 0;

    for (size_t i = 0; i < d->n_marks; i++)
        if (i >= surplus && d->mark[i].worker != worker)
            d->mark[kept++] = d->mark[i];
    d->n_marks = kept;
}

int events_mark(struct gpu_driver *d, unsigned worker, const json_t *uuids, struct err *err)
{
    const size_t n = json_array_size(uuids);
    struct mark *mark;

    if (n > GPUS_MAX)
        return err_set(err, "a worker has more than %u GPUs: name fewer in CUDA_VISIBLE_DEVICES",
                       GPUS_MAX);
    make_room(d, worker, n);
    if (!(mark = realloc(d->mark, (d->n_marks + n + 1) * sizeof *mark)))
        return err_set(err, "out of memory");
    d->mark = mark;
    open_events(d);
    drain(d);
    for (size_t i = 0; i < n; i++) {
        const char *uuid = json_string_value(json_array_get(uuids, i));
        const struct found *f = uuid ? driver_device(d, uuid) : NULL;

        if (!f)
            continue;
        mark = &d->mark[d->n_marks++];
        *mark = (struct mark){ .worker = worker,
                               .after = d->n_events,
                               .corrected = readings_ecc(d, f, NVML_ECC_CORRECTED),
                               .uncorrected = readings_ecc(d, f, NVML_ECC_UNCORRECTED) };
        memcpy(mark->uuid, f->uuid, sizeof mark->uuid);
    }
    return 0;
}

/* Was the event on the mark's GPU or, for a MIG instance, on its part of the GPU? */
static bool concerns(const struct event *e, const struct mark *m, const struct found *f)
{
    if (e->number <= m->after)
        return false;
    if (!f->parent[0])
        return strcmp(e->uuid, m->uuid) == 0;
    return strcmp(e->uuid, f->parent) == 0 &&
           (e->gi == UINT32_MAX || f->gi < 0 || (int)e->gi == f->gi);
}

/* Counts the Xid in the list, which has one object for each Xid of a GPU. */
static int count_xid(json_t *list, const char *uuid, uint64_t xid)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *o = json_array_get(list, i);

        if ((uint64_t)json_integer_value(json_object_get(o, "xid")) == xid &&
            strcmp(json_string_value(json_object_get(o, "uuid")), uuid) == 0)
            return json_object_set_new(o, "times",
                                       json_integer(
                                           json_integer_value(json_object_get(o, "times")) + 1));
    }
    return json_array_append_new(list, json_pack("{s:s, s:I, s:i}", "uuid", uuid, "xid",
                                                 (json_int_t)xid, "times", 1));
}

static int add_xids(const struct gpu_driver *d, const struct mark *m, const struct found *f,
                    json_t *list)
{
    const uint64_t oldest = d->n_events > DRIVER_EVENTS ? d->n_events - DRIVER_EVENTS : 0;

    for (uint64_t i = oldest > m->after ? oldest : m->after; i < d->n_events; i++) {
        const struct event *e = &d->event[i % DRIVER_EVENTS];

        if (e->type == NVML_EVENT_XID && concerns(e, m, f) && count_xid(list, m->uuid, e->data) < 0)
            return -1;
    }
    return 0;
}

static int64_t more_than(int64_t before, int64_t now)
{
    return before >= 0 && now > before ? now - before : 0;
}

static int add_ecc(const struct gpu_driver *d, const struct mark *m, const struct found *f,
                   json_t *list)
{
    const int64_t corrected = more_than(m->corrected, readings_ecc(d, f, NVML_ECC_CORRECTED));
    const int64_t uncorrected = more_than(m->uncorrected, readings_ecc(d, f, NVML_ECC_UNCORRECTED));

    if (!corrected && !uncorrected)
        return 0;
    return json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "uuid", m->uuid, "corrected",
                                                 (json_int_t)corrected, "uncorrected",
                                                 (json_int_t)uncorrected));
}

json_t *events_since(struct gpu_driver *d, unsigned worker)
{
    json_t *xids = json_array(), *ecc = json_array();
    size_t kept = 0;
    int rc = 0;

    drain(d);
    for (size_t i = 0; i < d->n_marks; i++) {
        const struct mark *m = &d->mark[i];
        const struct found *f = driver_device(d, m->uuid);

        if (m->worker != worker)
            d->mark[kept++] = *m;
        else if (f && (add_xids(d, m, f, xids) < 0 || add_ecc(d, m, f, ecc) < 0))
            rc = -1;
    }
    d->n_marks = kept;
    if (rc == 0 && xids && ecc)
        return json_pack("{s:o, s:o}", "xids", xids, "ecc", ecc);
    json_decref(xids);
    json_decref(ecc);
    return NULL;
}
