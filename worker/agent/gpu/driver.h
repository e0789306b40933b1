/* driver.h - what the driver's libraries say: which GPUs there are, what they do now, and what went
 * wrong on them. Its calls may take seconds, or for ever when a GPU is broken: only the process
 * cellspan-gpus makes them; see README.md. */
#ifndef WORKER_AGENT_GPU_DRIVER_H
#define WORKER_AGENT_GPU_DRIVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "worker/agent/gpu/crowd.h"
#include "worker/agent/gpu/cuda.h"
#include "worker/agent/gpu/gpus.h"
#include "worker/agent/gpu/nvml.h"

#define DRIVER_EVENTS 256u /* that are kept; the oldest go first */
#define DRIVER_MARKS  1024u

struct found {
    char uuid[GPU_TEXT];
    char parent[GPU_TEXT];
    struct nvml_device *device; /* NULL: from the CUDA driver, which says nothing more about it */
    int gi;
};

struct event {
    char uuid[GPU_TEXT]; /* of a whole GPU */
    uint64_t type, data; /* NVML_EVENT_…, the Xid */
    unsigned gi;         /* GPU instance; UINT32_MAX: all of the GPU */
    uint64_t number;     /* 1, 2, … */
};

/* From here on, events on these GPUs are worker's. */
struct mark {
    unsigned worker;
    uint64_t after; /* events with a higher number */
    char uuid[GPU_TEXT];
    int64_t corrected, uncorrected; /* ECC counts then; -1: unknown */
};

struct driver {
    struct nvml nvml;
    bool open; /* nvml is */
    struct gpus gpus;
    struct found *found; /* owned: every device, also those that CUDA_VISIBLE_DEVICES hides */
    size_t n_found;
    struct nvml_event_set *events; /* NULL: not asked for yet, or there are none */
    struct event event[DRIVER_EVENTS];
    uint64_t n_events; /* so far */
    struct mark *mark; /* owned */
    size_t n_marks;
};

void driver_init(struct driver *d);
void driver_release(struct driver *d);

/* Finds the GPUs anew. visible: CUDA_VISIBLE_DEVICES, NULL when unset. Having none is no failure:
 * d->gpus.why says why. */
MUST_USE int driver_find(struct driver *d, const char *visible, struct err *err);

/* ---- readings.c ---- */
/* [{"uuid", "index", "used", "total", "use", "lost", "corrected", "uncorrected", "ours":
 * [{"worker", "pid", "memory", "who"}], "others": [{"pid", "memory", "who"}]}] of the GPUs of
 * `only` (an array of UUIDs; NULL: all of the list); bytes and percent; what can't be told is null.
 * workers: [{"worker", "pid", "who"}], and `crowd` made from it. NULL: memory is out. */
json_t *driver_read(const struct driver *d, const json_t *only, const json_t *workers,
                    const struct crowd *crowd);

/* ---- events.c ---- */
MUST_USE int driver_mark(struct driver *d, unsigned worker, const json_t *uuids, struct err *err);
/* What happened since the mark, which is removed: {"xids": [{"uuid", "xid", "times"}], "ecc":
 * [{"uuid", "corrected", "uncorrected"}]}, only what is not 0. NULL: memory is out. */
json_t *driver_since(struct driver *d, unsigned worker);

/* For the above. */
const struct found *driver_device(const struct driver *d, const char *uuid); /* NULL: not there */
int64_t driver_ecc(const struct driver *d, const struct found *f, int type); /* -1: unknown */

#endif
