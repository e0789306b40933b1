/* SPDX-License-Identifier: BSD-3-Clause */
/* readings.c - see driver.h: the current readings of GPUs. */
#include "worker/agent/gpu/driver.h"

#include <stdlib.h>
#include <string.h>

#define PROCESSES_MAX 4096u
#define TRIES         4 /* the list may have grown since NVML told its length */
#define SLACK         16u
/* bytes that the driver itself may use on a GPU without processes; every CUDA context needs more */
#define UNLISTED_MAX (INT64_C(128) << 20)

int64_t readings_ecc(const struct gpu_driver *d, const struct found *f, int type)
{
    unsigned long long count;

    if (!f->device || !d->nvml.ecc ||
        d->nvml.ecc(f->device, type, NVML_ECC_VOLATILE, &count) != NVML_OK)
        return -1;
    return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

static json_t *number(int64_t n)
{
    return n < 0 ? json_null() : json_integer(n);
}

/* ---- memory ---- */

/* Returns NVML's result, which may be NVML_GPU_IS_LOST. Prefers the newer function, which does not
 * count the memory that the driver reserves. */
static int read_memory(const struct nvml *n, struct nvml_device *device, int64_t *used,
                       int64_t *total)
{
    struct nvml_memory_v2 v2 = { .version = NVML_MEMORY_V2 };
    struct nvml_memory v1;
    int result = n->memory_v2 ? n->memory_v2(device, &v2) : NVML_NOT_SUPPORTED;

    if (result == NVML_OK) {
        *used = (int64_t)v2.used;
        *total = (int64_t)v2.total;
        return result;
    }
    if ((result = n->memory(device, &v1)) == NVML_OK) {
        *used = (int64_t)v1.used;
        *total = (int64_t)v1.total;
    }
    return result;
}

/* ---- processes ---- */

/* Asks an older driver, whose entries are shorter. Expands them in place, from the last. */
static int ask_old(const struct nvml *n, struct nvml_device *device, unsigned *count,
                   struct nvml_process *p)
{
    const unsigned room = *count;
    const int result = n->processes_v1(device, count, (struct nvml_process_v1 *)(void *)p);

    for (unsigned i = *count; result == NVML_OK && *count <= room && i-- > 0;) {
        struct nvml_process_v1 old;

        memcpy(&old, (const char *)p + i * sizeof old, sizeof old);
        p[i] = (struct nvml_process){ old.pid, old.used, UINT32_MAX, UINT32_MAX };
    }
    return result;
}

/* Reads the processes into *out (to be freed). Returns how many, or -1. */
static long ask_processes(const struct nvml *n, struct nvml_device *device,
                          struct nvml_process **out)
{
    unsigned room = SLACK;

    if (!n->processes && !n->processes_v1)
        return -1;
    for (int i = 0; i < TRIES && room <= PROCESSES_MAX; i++) {
        /* Allocates 8 bytes more for each entry: some drivers of 2023 write longer entries than
         * this version of the function has. */
        struct nvml_process *const p = calloc(room, sizeof *p + 8);
        unsigned count = room;
        int result;

        if (!p)
            return -1;
        result = n->processes ? n->processes(device, &count, p) : ask_old(n, device, &count, p);
        if (result == NVML_OK && count <= room) {
            *out = p;
            return (long)count;
        }
        free(p);
        if (result != NVML_INSUFFICIENT_SIZE || count > PROCESSES_MAX)
            return -1;
        room = count + SLACK;
    }
    return -1;
}

static json_t *ours_to_json(const json_t *worker, const struct nvml_process *p)
{
    return json_pack("{s:O, s:i, s:o, s:O*}", "worker", json_object_get(worker, "worker"), "pid",
                     (int)p->pid, "memory",
                     number(p->used == NVML_NOT_AVAILABLE ? -1 : (int64_t)p->used), "who",
                     json_object_get(worker, "who"));
}

static json_t *other_to_json(const struct nvml_process *p)
{
    char who[GPU_PROCESSES_WHO];

    return json_pack("{s:i, s:o, s:s}", "pid", (int)p->pid, "memory",
                     number(p->used == NVML_NOT_AVAILABLE ? -1 : (int64_t)p->used), "who",
                     gpu_processes_who((long)p->pid, who));
}

/* *known: does the driver list them? If not, both lists stay empty. */
static int read_processes(const struct nvml *n, struct nvml_device *device, const json_t *workers,
                          const struct gpu_processes *processes, json_t *ours, json_t *others,
                          bool *known)
{
    struct nvml_process *p = NULL;
    const long count = ask_processes(n, device, &p);
    int rc = 0;

    *known = count >= 0;
    for (long i = 0; rc == 0 && i < count; i++) {
        const struct gpu_process *m = gpu_processes_find(processes, (long)p[i].pid);

        rc = m ? json_array_append_new(ours,
                                       ours_to_json(json_array_get(workers, m->worker), &p[i]))
               : json_array_append_new(others, other_to_json(&p[i]));
    }
    free(p);
    return rc;
}

/* ---- one GPU ---- */

/* The use in percent; -1: unknown. NVML knows it only for whole GPUs. */
static int64_t read_use(const struct nvml *n, struct nvml_device *device)
{
    struct nvml_utilization use;

    return n->utilization && n->utilization(device, &use) == NVML_OK ? (int64_t)use.gpu : -1;
}

static json_t *read_numbers(const struct gpu_driver *d, const struct gpu *gpu,
                            const struct found *f)
{
    int64_t used = -1, total = gpu->memory ? (int64_t)gpu->memory : -1, use = -1;
    int result = NVML_OK;

    if (f && f->device) {
        result = read_memory(&d->nvml, f->device, &used, &total);
        use = read_use(&d->nvml, f->device);
    }
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:b, s:o, s:o}", "uuid", gpu->uuid, "index",
                     (int)gpu->index, "used", number(used), "total", number(total), "use",
                     number(use), "lost",
                     result == NVML_GPU_IS_LOST || result == NVML_RESET_REQUIRED, "corrected",
                     number(f ? readings_ecc(d, f, NVML_ECC_CORRECTED) : -1), "uncorrected",
                     number(f ? readings_ecc(d, f, NVML_ECC_UNCORRECTED) : -1));
}

/* Does the driver's list tell who is on the GPU? An empty one does only if nobody uses the GPU: in
 * a container with its own pid namespace, the list is always empty. */
static bool is_list_true(const json_t *one, size_t listed)
{
    const json_t *used = json_object_get(one, "used");

    return listed || (json_is_integer(used) && json_integer_value(used) <= UNLISTED_MAX);
}

static json_t *read_one(const struct gpu_driver *d, const struct gpu *gpu, const json_t *workers,
                        const struct gpu_processes *processes)
{
    const struct found *f = driver_device(d, gpu->uuid);
    json_t *one = read_numbers(d, gpu, f), *ours = json_array(), *others = json_array();
    bool good = one && ours && others, known = false;

    if (good && f && f->device)
        good = read_processes(&d->nvml, f->device, workers, processes, ours, others, &known) == 0;
    known = known && is_list_true(one, json_array_size(ours) + json_array_size(others));
    good = good && json_object_set(one, "ours", ours) == 0 &&
           json_object_set(one, "others", others) == 0 &&
           json_object_set_new(one, "processes_known", json_boolean(known)) == 0;
    json_decref(ours);
    json_decref(others);
    if (good)
        return one;
    json_decref(one);
    return NULL;
}

static bool is_wanted(const struct gpu *gpu, const json_t *only)
{
    for (size_t i = 0; only && i < json_array_size(only); i++) {
        const char *uuid = json_string_value(json_array_get(only, i));

        if (uuid && strcmp(uuid, gpu->uuid) == 0)
            return true;
    }
    return !only;
}

json_t *readings_list(const struct gpu_driver *d, const json_t *only, const json_t *workers,
                      const struct gpu_processes *processes)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < d->gpus.n; i++)
        if (is_wanted(&d->gpus.v[i], only) &&
            json_array_append_new(list, read_one(d, &d->gpus.v[i], workers, processes)) < 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}
