/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h - asks the driver's libraries which GPUs there are, their current readings, and their
 * errors. A call may take seconds, or never return if a GPU is broken. So only the process
 * cellspan-gpus makes them; see README.md. */
#ifndef WORKER_AGENT_GPU_DRIVER_H
#define WORKER_AGENT_GPU_DRIVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "worker/agent/gpu/checkpoint.h"
#include "worker/agent/gpu/gpu_list.h"
#include "worker/agent/gpu/nvml.h"

struct gpu_processes;

#define DRIVER_EVENTS 256u /* number of events that are kept; the oldest are dropped */
#define DRIVER_MARKS  1024u

struct found {
    char uuid[GPU_TEXT];
    char parent[GPU_TEXT];
    struct nvml_device *device; /* NULL: known only from the CUDA driver */
    int gi;
};

struct event {
    char uuid[GPU_TEXT]; /* of the whole GPU */
    uint64_t type, data; /* NVML_EVENT_…, the Xid */
    unsigned gi;         /* GPU instance; UINT32_MAX: the whole GPU */
    uint64_t number;     /* 1, 2, … */
};

/* When a worker got a GPU: later events on it belong to this worker. */
struct mark {
    unsigned worker;
    uint64_t after; /* the number of the last earlier event */
    char uuid[GPU_TEXT];
    int64_t corrected, uncorrected; /* ECC counts at that time; -1: unknown */
};

/* The processor time of the workers at one moment. */
struct cpu_sample {
    struct cpu_worker {
        unsigned worker;
        uint64_t ns;
    } *v; /* owned, n of them */
    size_t n;
    uint64_t at_ns; /* monotonic; 0: there was none */
};

struct gpu_driver {
    struct nvml nvml;
    bool open; /* nvml is open */
    struct gpus gpus;
    struct found *found; /* owned: all devices, also those that CUDA_VISIBLE_DEVICES hides */
    size_t n_found;
    struct nvml_event_set *events; /* NULL: not registered yet, or not supported */
    struct event event[DRIVER_EVENTS];
    uint64_t n_events; /* number of events so far */
    struct mark *mark; /* owned */
    size_t n_marks;
    struct cpu_sample cpu; /* with which the next one is compared */
    /* opened by the first question that needs it; probe.c closes it */
    struct checkpoint_calls checkpoint;
};

void driver_init(struct gpu_driver *d);
void driver_release(struct gpu_driver *d);

/* Finds the GPUs again. visible: CUDA_VISIBLE_DEVICES, NULL if unset. It is not a failure if there
 * are none: then d->gpus.why says why. */
MUST_USE int driver_find(struct gpu_driver *d, const char *visible, struct err *err);

/* ---- readings.c ---- */
/* [{"uuid", "index", "used", "total", "use", "lost", "corrected", "uncorrected", "ours":
 * [{"worker", "pid", "memory", "who"}], "others": [{"pid", "memory", "who"}]}] of the GPUs in
 * `only` (an array of UUIDs; NULL: all of the list). Units: bytes and percent; unknown values
 * are null. workers: [{"worker", "pid", "who"}]; processes: made from it. NULL: memory is out. */
json_t *readings_list(const struct gpu_driver *d, const json_t *only, const json_t *workers,
                      const struct gpu_processes *processes);

/* ---- events.c ---- */
/* Sets marks for a worker that gets these GPUs. */
MUST_USE int events_mark(struct gpu_driver *d, unsigned worker, const json_t *uuids,
                         struct err *err);
/* What happened since the worker's marks: {"xids": [{"uuid", "xid", "times"}], "ecc": [{"uuid",
 * "corrected", "uncorrected"}]}, without those that are 0. Removes the marks. NULL: memory is
 * out. */
json_t *events_since(struct gpu_driver *d, unsigned worker);

/* for readings.c and events.c */
const struct found *driver_device(const struct gpu_driver *d,
                                  const char *uuid); /* NULL: not there */
int64_t readings_ecc(const struct gpu_driver *d, const struct found *f, int type); /* -1: unknown */

/* ---- cpu_use.c ---- */
/* For each worker how much of one processor's time its processes have, in percent (two busy
 * threads: 200); null if unknown. It is the average since the last sample, or since the worker
 * started. NULL: memory is out. */
json_t *cpu_use_list(struct cpu_sample *last, const json_t *workers,
                     const struct gpu_processes *processes);
void cpu_sample_release(struct cpu_sample *sample);

/* ---- gpu_processes.c ---- */
/* All processes of the workers: their main processes, and those that these have started, such as
 * data loaders. */

#define GPU_PROCESSES_MAX 65536u
#define GPU_PROCESSES_WHO 96u

struct gpu_process {
    long pid;
    size_t worker; /* index in the array given to gpu_processes_fill */
};

struct gpu_processes {
    struct gpu_process *v; /* owned */
    size_t n;
};

#define GPU_PROCESSES_INIT { NULL, 0 }

void gpu_processes_release(struct gpu_processes *c);
/* workers: [{"worker", "pid"}, …]; an element without pid has no processes. */
MUST_USE int gpu_processes_fill(struct gpu_processes *c, const json_t *workers, struct err *err);
const struct gpu_process *gpu_processes_find(const struct gpu_processes *c,
                                             long pid); /* NULL: not one of ours */
/* The memory of a worker's processes in bytes (PSS: shared pages are divided); 0 if the system does
 * not tell. */
uint64_t gpu_processes_memory(const struct gpu_processes *c, size_t worker);
/* The time on processors that they have had, in nanoseconds. */
uint64_t gpu_processes_cpu(const struct gpu_processes *c, size_t worker);
/* "alice's python"; "" if unknown: the process has ended, or is in another container. */
const char *gpu_processes_who(long pid, char out[static GPU_PROCESSES_WHO]);

#endif
