/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c - see driver.h. Prefers NVML to the CUDA driver: NVML knows MIG instances, needs no
 * context, and has readings of each GPU. */
#include "worker/agent/gpu/driver.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"
#include "base/rank_set.h"
#include "worker/collective/cuda_driver.h"

#define CPU_WORDS  64u /* 4096 CPUs */
#define NODE_WORDS 16u
#define BITS       (8u * (unsigned)sizeof(unsigned long))

void driver_init(struct gpu_driver *d)
{
    memset(d, 0, sizeof *d);
}

static void forget_found(struct gpu_driver *d)
{
    gpus_release(&d->gpus);
    free(d->found);
    d->found = NULL;
    d->n_found = 0;
}

void driver_release(struct gpu_driver *d)
{
    forget_found(d);
    free(d->mark);
    cpu_sample_release(&d->cpu);
    if (d->open && d->events)
        (void)d->nvml.event_free(d->events);
    if (d->open)
        nvml_close(&d->nvml);
    driver_init(d);
}

const struct found *driver_device(const struct gpu_driver *d, const char *uuid)
{
    for (size_t i = 0; i < d->n_found; i++)
        if (strcmp(d->found[i].uuid, uuid) == 0)
            return &d->found[i];
    return NULL;
}

static int add(struct gpu_driver *d, const struct gpu *one, struct nvml_device *device,
               struct err *err)
{
    struct found *found = realloc(d->found, (d->n_found + 1) * sizeof *found);

    if (!found)
        return err_set(err, "out of memory for the list of GPUs");
    d->found = found;
    if (gpus_add(&d->gpus, one, err) < 0)
        return -1;
    found += d->n_found++;
    *found = (struct found){ .device = device, .gi = one->gi };
    memcpy(found->uuid, one->uuid, sizeof found->uuid);
    memcpy(found->parent, one->parent, sizeof found->parent);
    return 0;
}

/* Names come from firmware: replaces characters that a terminal or JSON can't show unescaped. */
static void clean(char *text)
{
    for (; *text; text++)
        if (!isprint((unsigned char)*text) || *text == '"' || *text == '\\')
            *text = '?';
}

/* ---- where a GPU is ---- */

/* Converts NVML's PCI address to that of sysfs: four digits of the domain, lower case. */
static void sysfs_name(const char *bus_id, char *out, size_t size)
{
    const size_t n = strcspn(bus_id, ":");

    snprintf(out, size, "%s", n == 8 && strncmp(bus_id, "0000", 4) == 0 ? bus_id + 4 : bus_id);
    for (; *out; out++)
        *out = (char)tolower((unsigned char)*out);
}

static int numa_of_sysfs(const char *pci)
{
    char path[128], text[16];
    uint64_t node;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", pci);
    node = file_number(file_start(path, text, sizeof text), INT_MAX);
    return pci[0] && node < INT_MAX ? (int)node : -1;
}

static int numa_of(const struct nvml *n, struct nvml_device *device, const char *pci)
{
    unsigned long nodes[NODE_WORDS] = { 0 };
    const int of_sysfs = numa_of_sysfs(pci);

    if (of_sysfs >= 0 || !n->memory_affinity ||
        n->memory_affinity(device, NODE_WORDS, nodes, NVML_SCOPE_NODE) != NVML_OK)
        return of_sysfs;
    for (unsigned i = 0; i < NODE_WORDS * BITS; i++)
        if (nodes[i / BITS] >> i % BITS & 1)
            return (int)i;
    return -1;
}

/* Reads the CPUs near the GPU. If the list is too long for `out`, it is left empty. */
static void read_cpus(const struct nvml *n, struct nvml_device *device, char out[static GPU_CPUS])
{
    unsigned long cpus[CPU_WORDS] = { 0 };
    struct ranks set = RANKS_INIT;
    struct buf text = BUF_INIT;
    bool good = n->cpu_affinity && n->cpu_affinity(device, CPU_WORDS, cpus) == NVML_OK;

    for (unsigned i = 0; good && i < CPU_WORDS * BITS; i++)
        if (cpus[i / BITS] >> i % BITS & 1)
            good = ranks_add(&set, i) == 0;
    if (good && ranks_format(&set, &text) == 0 && text.n < GPU_CPUS)
        snprintf(out, GPU_CPUS, "%s", text.n ? text.p : "");
    ranks_release(&set);
    buf_release(&text);
}

/* ---- NVML ---- */

static uint64_t memory_of(const struct nvml *n, struct nvml_device *device)
{
    struct nvml_memory m = { 0, 0, 0 };

    return n->memory(device, &m) == NVML_OK ? m.total : 0;
}

static bool read_names(const struct nvml *n, struct nvml_device *device, struct gpu *one)
{
    const int result = n->uuid(device, one->uuid, sizeof one->uuid);

    if (result != NVML_OK) {
        log_warn("gpu", "GPU %u has no UUID: %s", one->index, nvml_words(n, result));
        return false;
    }
    if (n->name(device, one->name, sizeof one->name) != NVML_OK)
        snprintf(one->name, sizeof one->name, "a GPU");
    clean(one->uuid);
    clean(one->name);
    one->memory = memory_of(n, device);
    return true;
}

static int id_of(int (*ask)(struct nvml_device *, unsigned *), struct nvml_device *mig)
{
    unsigned id;

    return ask && ask(mig, &id) == NVML_OK ? (int)id : -1;
}

static bool is_mig(const struct nvml *n, struct nvml_device *device)
{
    unsigned now = 0, later;

    return n->mig_mode && n->mig_max && n->mig_by_index &&
           n->mig_mode(device, &now, &later) == NVML_OK && now == NVML_MIG_ENABLED;
}

/* Adds the instances of a GPU in MIG mode, since the GPU itself can't be used. */
static int add_instances(struct gpu_driver *d, struct nvml_device *device, const struct gpu *whole,
                         struct err *err)
{
    const struct nvml *n = &d->nvml;
    unsigned max = 0;

    d->gpus.numbered = false; /* CUDA then has other numbers */
    if (n->mig_max(device, &max) != NVML_OK)
        return 0;
    for (unsigned i = 0; i < max; i++) {
        struct nvml_device *mig = NULL;
        struct gpu one = *whole;

        if (n->mig_by_index(device, i, &mig) != NVML_OK)
            continue; /* numbers have gaps */
        memcpy(one.parent, whole->uuid, sizeof one.parent);
        one.instance = (int)i;
        one.gi = id_of(n->gpu_instance, mig);
        one.ci = id_of(n->compute_instance, mig);
        if (read_names(n, mig, &one) && add(d, &one, mig, err) < 0)
            return -1;
    }
    return 0;
}

static int add_one(struct gpu_driver *d, unsigned index, struct err *err)
{
    const struct nvml *n = &d->nvml;
    struct gpu one = { .index = index, .instance = -1, .gi = -1, .ci = -1, .numa = -1 };
    struct nvml_device *device = NULL;
    struct nvml_pci pci = { .bus_id = "" };
    const int result = n->by_index(index, &device);
    int mode = 0;

    if (result != NVML_OK) {
        log_warn("gpu", "GPU %u can't be used: %s", index, nvml_words(n, result));
        d->gpus.numbered = false; /* CUDA may not count this GPU */
        return 0;
    }
    if (!read_names(n, device, &one)) {
        d->gpus.numbered = false;
        return 0;
    }
    if (n->pci && n->pci(device, &pci) == NVML_OK)
        sysfs_name(pci.bus_id, one.pci, sizeof one.pci);
    one.exclusive = n->compute_mode && n->compute_mode(device, &mode) == NVML_OK &&
                    mode == NVML_EXCLUSIVE_PROCESS;
    one.numa = numa_of(n, device, one.pci);
    read_cpus(n, device, one.cpus);
    return is_mig(n, device) ? add_instances(d, device, &one, err) : add(d, &one, device, err);
}

static int find_by_nvml(struct gpu_driver *d, struct err *err)
{
    unsigned count = 0;
    const int result = d->nvml.count(&count);

    if (result != NVML_OK)
        return err_set(err, "NVML can't count the GPUs: %s", nvml_words(&d->nvml, result));
    if (d->nvml.driver_version(d->gpus.driver, sizeof d->gpus.driver) != NVML_OK)
        d->gpus.driver[0] = '\0';
    clean(d->gpus.driver);
    d->gpus.numbered = true;
    for (unsigned i = 0; i < count; i++)
        if (add_one(d, i, err) < 0)
            return -1;
    if (d->gpus.n == 0)
        snprintf(d->gpus.why, sizeof d->gpus.why, "driver %s sees no GPU that can be used here",
                 d->gpus.driver);
    return 0;
}

/* ---- the CUDA driver alone ---- */

static int add_cuda(struct gpu_driver *d, const struct cuda_driver *c, unsigned index,
                    struct err *err)
{
    struct gpu one = {
        .index = index, .instance = -1, .gi = -1, .ci = -1, .numa = -1, .name = "a GPU"
    };
    struct cu_uuid id;
    cu_device device;
    char bus_id[sizeof one.pci];
    size_t bytes = 0;

    if (c->device(&device, (int)index) != DRIVER_OK || c->uuid(&id, device) != DRIVER_OK)
        return 0;
    (void)c->name(one.name, sizeof one.name - 1, device);
    clean(one.name);
    if (strstr(one.name, " MIG "))
        one.instance = 0;
    cuda_uuid_text(&id, one.instance >= 0 ? "MIG" : "GPU", one.uuid);
    if (c->memory && c->memory(&bytes, device) == DRIVER_OK)
        one.memory = bytes;
    if (c->pci && c->pci(bus_id, sizeof bus_id, device) == DRIVER_OK)
        sysfs_name(bus_id, one.pci, sizeof one.pci);
    one.numa = numa_of_sysfs(one.pci);
    return add(d, &one, NULL, err);
}

/* CUDA_VISIBLE_DEVICES needs no further work: the CUDA driver lists only what it names. */
static int find_by_cuda(struct gpu_driver *d, struct err *err)
{
    struct err why = { "" };
    struct cuda_driver c;
    bool absent;
    int count = 0, version = 0, rc = 0;

    if (cuda_driver_open(&c, CUDA_DEVICES, &absent, &why) < 0) {
        if (!absent)
            snprintf(d->gpus.why, sizeof d->gpus.why, "%.*s", (int)sizeof d->gpus.why - 1,
                     why.text);
        return 0;
    }
    if (c.version(&version) == DRIVER_OK)
        snprintf(d->gpus.driver, sizeof d->gpus.driver, "CUDA %d.%d", version / 1000,
                 version % 1000 / 10);
    if (c.count(&count) != DRIVER_OK)
        count = 0;
    for (int i = 0; rc == 0 && i < count; i++)
        rc = add_cuda(d, &c, (unsigned)i, err);
    if (d->gpus.n)
        d->gpus.why[0] = '\0';
    d->gpus.all = (unsigned)d->gpus.n;
    cuda_driver_close(&c);
    return rc;
}

int driver_find(struct gpu_driver *d, const char *visible, struct err *err)
{
    struct err why = { "" };
    bool absent = false;

    forget_found(d);
    if (!d->open && nvml_open(&d->nvml, &absent, &why) < 0) {
        snprintf(d->gpus.why, sizeof d->gpus.why, "%.*s", (int)sizeof d->gpus.why - 1, why.text);
        return absent ? find_by_cuda(d, err) : 0;
    }
    d->open = true;
    if (find_by_nvml(d, err) < 0)
        return -1;
    return inherited_mask_apply(&d->gpus, visible, err);
}
