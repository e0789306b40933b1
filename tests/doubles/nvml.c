/* SPDX-License-Identifier: BSD-3-Clause */
/* nvml.c - a libnvidia-ml without a driver: see README.md. */
#include <stdio.h>
#include <string.h>

#include "tests/doubles/control.h"
#include "worker/agent/gpu/nvml.h"

#define EXPORT __attribute__((visibility("default")))
/* A call does what the control file says of it first. */
#define OBEY                                                                                       \
    do {                                                                                           \
        const int told_ = control_call(__func__);                                                  \
        if (told_)                                                                                 \
            return told_;                                                                          \
    } while (0)

struct nvml_device {
    long gpu;
    long instance; /* -1: the GPU itself */
};

struct nvml_event_set {
    unsigned told; /* xid lines */
    unsigned registered;
};

struct double_state {
    struct nvml_device device[DOUBLE_GPUS][1 + DOUBLE_INSTANCES];
    struct nvml_event_set set;
    int inits;
};

static struct double_state state; /* a library has no other place for it */

static unsigned count_gpus(void)
{
    long number[3];

    return control_line("count", 0, number) ? (unsigned)number[0] : 8;
}

static int is_lost(const struct nvml_device *d)
{
    return control_of("lost", d->gpu, -1) >= 0 ? NVML_GPU_IS_LOST : 0;
}

/* As control_line() numbers them. */
static long number_of(const struct nvml_device *d)
{
    return d->gpu + (d->instance >= 0 ? 100 * (d->instance + 1) : 0);
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
    OBEY;
    state.inits++;
    return 0;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void)
{
    OBEY;
    return --state.inits < 0 ? 1 : 0;
}

EXPORT const char *nvmlErrorString(int result);
EXPORT const char *nvmlErrorString(int result)
{
    return result == NVML_DRIVER_NOT_LOADED ? "Driver Not Loaded"
           : result == NVML_GPU_IS_LOST     ? "GPU is lost"
                                            : "Unknown Error";
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned size);
EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    long number[3];

    OBEY;
    if (control_line("driver", 0, number))
        snprintf(version, size, "%ld.12.34", number[0]);
    else
        snprintf(version, size, "550.54.15");
    return 0;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    OBEY;
    *count = count_gpus();
    return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **device);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **device)
{
    OBEY;
    if (index >= count_gpus() || index >= DOUBLE_GPUS)
        return NVML_INVALID_ARGUMENT;
    *device = &state.device[index][0];
    **device = (struct nvml_device){ (long)index, -1 };
    return is_lost(*device);
}

#ifndef DOUBLE_BROKEN
EXPORT int nvmlDeviceGetUUID(struct nvml_device *device, char *uuid, unsigned size);
EXPORT int nvmlDeviceGetUUID(struct nvml_device *device, char *uuid, unsigned size)
{
    OBEY;
    if (is_lost(device))
        return NVML_GPU_IS_LOST;
    if (device->instance < 0)
        snprintf(uuid, size, "GPU-a0%02lx1234-0000-4000-8000-0123456789ab",
                 (unsigned long)device->gpu);
    else
        snprintf(uuid, size, "MIG-b%lx%02lx5678-0000-4000-8000-0123456789ab",
                 (unsigned long)device->instance, (unsigned long)device->gpu);
    return 0;
}
#endif

EXPORT int nvmlDeviceGetName(struct nvml_device *device, char *name, unsigned size);
EXPORT int nvmlDeviceGetName(struct nvml_device *device, char *name, unsigned size)
{
    OBEY;
    snprintf(name, size, "NVIDIA A100-SXM4-80GB%s", device->instance < 0 ? "" : " MIG 1g.10gb");
    return 0;
}

static void read_memory(const struct nvml_device *d, unsigned long long *total,
                        unsigned long long *used)
{
    *total = d->instance < 0 ? DOUBLE_TOTAL : DOUBLE_TOTAL / 8;
    *used = (unsigned long long)control_of("memory", number_of(d), 512) * DOUBLE_MIB;
}

EXPORT int nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *m);
EXPORT int nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *m)
{
    OBEY;
    read_memory(device, &m->total, &m->used);
    m->used += 600 * DOUBLE_MIB; /* what the driver keeps counts here */
    m->free = m->total - m->used;
    return is_lost(device);
}

EXPORT int nvmlDeviceGetUtilizationRates(struct nvml_device *device, struct nvml_utilization *use);
EXPORT int nvmlDeviceGetUtilizationRates(struct nvml_device *device, struct nvml_utilization *use)
{
    OBEY;
    if (device->instance >= 0)
        return NVML_NOT_SUPPORTED;
    *use = (struct nvml_utilization){ (unsigned)control_of("use", device->gpu, 0), 0 };
    return is_lost(device);
}

EXPORT int nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct nvml_pci *pci);
EXPORT int nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct nvml_pci *pci)
{
    OBEY;
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000DAD:%02lX:00.0",
             0x3bul + (unsigned long)device->gpu);
    return 0;
}

/* ---- processes ---- */

static int list(const struct nvml_device *d, unsigned *n, struct nvml_process *p,
                struct nvml_process_v1 *old)
{
    const unsigned room = *n;
    long number[3];

    *n = 0;
    for (unsigned i = 0; control_line("process", i, number); i++) {
        const struct nvml_process one = { (unsigned)number[1],
                                          number[2] < 0
                                              ? NVML_NOT_AVAILABLE
                                              : (unsigned long long)number[2] * DOUBLE_MIB,
                                          UINT32_MAX, UINT32_MAX };

        if (number[0] != number_of(d))
            continue;
        if (*n < room && old)
            old[*n] = (struct nvml_process_v1){ one.pid, one.used };
        else if (*n < room)
            p[*n] = one;
        ++*n;
    }
    return *n > room ? NVML_INSUFFICIENT_SIZE : 0;
}

#ifdef DOUBLE_OLD
EXPORT int nvmlDeviceGetComputeRunningProcesses(struct nvml_device *device, unsigned *n,
                                                struct nvml_process_v1 *p);
EXPORT int nvmlDeviceGetComputeRunningProcesses(struct nvml_device *device, unsigned *n,
                                                struct nvml_process_v1 *p)
{
    OBEY;
    return list(device, n, NULL, p);
}
#else
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned *n,
                                                   struct nvml_process *p);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct nvml_device *device, unsigned *n,
                                                   struct nvml_process *p)
{
    OBEY;
    return list(device, n, p, NULL);
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(struct nvml_device *device, struct nvml_memory_v2 *m);
EXPORT int nvmlDeviceGetMemoryInfo_v2(struct nvml_device *device, struct nvml_memory_v2 *m)
{
    OBEY;
    if (m->version != (40u | 2u << 24))
        return 25;
    read_memory(device, &m->total, &m->used);
    m->reserved = 600 * DOUBLE_MIB;
    m->free = m->total - m->used - m->reserved;
    return is_lost(device);
}

/* ---- where it is ---- */

EXPORT int nvmlDeviceGetMemoryAffinity(struct nvml_device *device, unsigned n, unsigned long *nodes,
                                       unsigned scope);
EXPORT int nvmlDeviceGetMemoryAffinity(struct nvml_device *device, unsigned n, unsigned long *nodes,
                                       unsigned scope)
{
    const long node = control_of("node", device->gpu, 0);

    OBEY;
    if (n == 0 || scope != NVML_SCOPE_NODE)
        return NVML_INVALID_ARGUMENT;
    memset(nodes, 0, n * sizeof *nodes);
    nodes[0] = 1ul << node;
    return 0;
}

EXPORT int nvmlDeviceGetCpuAffinity(struct nvml_device *device, unsigned n, unsigned long *cpus);
EXPORT int nvmlDeviceGetCpuAffinity(struct nvml_device *device, unsigned n, unsigned long *cpus)
{
    OBEY;
    memset(cpus, 0, n * sizeof *cpus);
    cpus[0] = (unsigned long)control_of("cpus", device->gpu, 0x3);
    return 0;
}

EXPORT int nvmlDeviceGetComputeMode(struct nvml_device *device, int *mode);
EXPORT int nvmlDeviceGetComputeMode(struct nvml_device *device, int *mode)
{
    OBEY;
    *mode = control_of("exclusive", device->gpu, -1) >= 0 ? NVML_EXCLUSIVE_PROCESS : 0;
    return 0;
}

/* ---- MIG ---- */

EXPORT int nvmlDeviceGetMigMode(struct nvml_device *device, unsigned *now, unsigned *later);
EXPORT int nvmlDeviceGetMigMode(struct nvml_device *device, unsigned *now, unsigned *later)
{
    OBEY;
    *now = *later = control_of("mig", device->gpu, -1) >= 0;
    return 0;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct nvml_device *device, unsigned *count);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct nvml_device *device, unsigned *count)
{
    OBEY;
    (void)device;
    *count = DOUBLE_INSTANCES;
    return 0;
}

/* The first number stays free: there are gaps. */
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct nvml_device *device, unsigned index,
                                               struct nvml_device **mig);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct nvml_device *device, unsigned index,
                                               struct nvml_device **mig)
{
    OBEY;
    if (index == 0 || (long)index > control_of("mig", device->gpu, 0))
        return NVML_NOT_FOUND;
    *mig = &state.device[device->gpu][index];
    **mig = (struct nvml_device){ device->gpu, (long)index };
    return 0;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct nvml_device *mig,
                                                        struct nvml_device **device);
EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct nvml_device *mig,
                                                        struct nvml_device **device)
{
    OBEY;
    *device = &state.device[mig->gpu][0];
    return 0;
}

EXPORT int nvmlDeviceGetGpuInstanceId(struct nvml_device *mig, unsigned *id);
EXPORT int nvmlDeviceGetGpuInstanceId(struct nvml_device *mig, unsigned *id)
{
    OBEY;
    *id = (unsigned)mig->instance + 6;
    return mig->instance < 0 ? NVML_INVALID_ARGUMENT : 0;
}

EXPORT int nvmlDeviceGetComputeInstanceId(struct nvml_device *mig, unsigned *id);
EXPORT int nvmlDeviceGetComputeInstanceId(struct nvml_device *mig, unsigned *id)
{
    OBEY;
    *id = 0;
    return mig->instance < 0 ? NVML_INVALID_ARGUMENT : 0;
}

/* ---- errors ---- */

EXPORT int nvmlDeviceGetTotalEccErrors(struct nvml_device *device, int type, int counter,
                                       unsigned long long *count);
EXPORT int nvmlDeviceGetTotalEccErrors(struct nvml_device *device, int type, int counter,
                                       unsigned long long *count)
{
    long number[3];

    OBEY;
    *count = 0;
    for (unsigned i = 0; counter == NVML_ECC_VOLATILE && control_line("ecc", i, number); i++)
        if (number[0] == device->gpu)
            *count = (unsigned long long)number[type == NVML_ECC_CORRECTED ? 1 : 2];
    return device->instance >= 0 ? NVML_NOT_SUPPORTED : is_lost(device);
}

EXPORT int nvmlEventSetCreate(struct nvml_event_set **set);
EXPORT int nvmlEventSetCreate(struct nvml_event_set **set)
{
    long number[3];

    OBEY;
    state.set = (struct nvml_event_set){ 0, 0 };
    while (control_line("xid", state.set.told, number)) /* what happened before is not recorded */
        state.set.told++;
    *set = &state.set;
    return 0;
}

EXPORT int nvmlDeviceGetSupportedEventTypes(struct nvml_device *device, unsigned long long *types);
EXPORT int nvmlDeviceGetSupportedEventTypes(struct nvml_device *device, unsigned long long *types)
{
    OBEY;
    *types = 0x1f;
    return device->instance >= 0 ? NVML_NOT_SUPPORTED : 0;
}

EXPORT int nvmlDeviceRegisterEvents(struct nvml_device *device, unsigned long long types,
                                    struct nvml_event_set *set);
EXPORT int nvmlDeviceRegisterEvents(struct nvml_device *device, unsigned long long types,
                                    struct nvml_event_set *set)
{
    OBEY;
    if (device->instance >= 0 || !(types & NVML_EVENT_XID))
        return NVML_INVALID_ARGUMENT;
    set->registered |= 1u << device->gpu;
    return 0;
}

EXPORT int nvmlEventSetWait_v2(struct nvml_event_set *set, struct nvml_event *event, unsigned ms);
EXPORT int nvmlEventSetWait_v2(struct nvml_event_set *set, struct nvml_event *event, unsigned ms)
{
    long number[3];

    OBEY;
    (void)ms;
    while (control_line("xid", set->told, number)) {
        set->told++;
        if (!(set->registered >> number[0] & 1))
            continue;
        *event = (struct nvml_event){ &state.device[number[0]][0], NVML_EVENT_XID,
                                      (unsigned long long)number[1],
                                      number[2] ? (unsigned)number[2] : UINT32_MAX, UINT32_MAX };
        return 0;
    }
    return NVML_TIMEOUT;
}

EXPORT int nvmlEventSetFree(struct nvml_event_set *set);
EXPORT int nvmlEventSetFree(struct nvml_event_set *set)
{
    OBEY;
    (void)set;
    return 0;
}
#endif
