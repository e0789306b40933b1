/* SPDX-License-Identifier: BSD-3-Clause */
/* nvml.h - NVIDIA's management library (libnvidia-ml.so.1), loaded at run time. Its header comes
 * with the toolkit, not with the driver. So what we use is declared here, with the layouts of every
 * NVML since R450. */
#ifndef WORKER_AGENT_GPU_NVML_H
#define WORKER_AGENT_GPU_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define NVML_UUID_SIZE    96u /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
#define NVML_NAME_SIZE    96u
#define NVML_VERSION_SIZE 80u

enum nvml_result {
    NVML_OK = 0,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16,
    NVML_VERSION_MISMATCH = 18,
};

#define NVML_EVENT_SINGLE_BIT  UINT64_C(1) /* ECC: corrected */
#define NVML_EVENT_DOUBLE_BIT  UINT64_C(2) /* ECC: not corrected */
#define NVML_EVENT_XID         UINT64_C(8)
#define NVML_ECC_CORRECTED     0
#define NVML_ECC_UNCORRECTED   1
#define NVML_ECC_VOLATILE      0 /* counts since the driver was loaded */
#define NVML_SCOPE_NODE        0u
#define NVML_MIG_ENABLED       1u
#define NVML_EXCLUSIVE_PROCESS 3
#define NVML_NOT_AVAILABLE     UINT64_MAX /* unknown memory of a process */

struct nvml_device;    /* opaque; owned by NVML, valid until shutdown */
struct nvml_event_set; /* opaque */

struct nvml_memory {
    unsigned long long total, free, used; /* bytes */
};

struct nvml_memory_v2 {
    unsigned version; /* NVML_MEMORY_V2 */
    unsigned long long total, reserved, free, used;
};

#define NVML_MEMORY_V2 ((unsigned)sizeof(struct nvml_memory_v2) | 2u << 24)

struct nvml_utilization {
    unsigned gpu, memory; /* percent of the last sample period */
};

struct nvml_process_v1 { /* before R470 */
    unsigned pid;
    unsigned long long used;
};

struct nvml_process { /* for _v2 and _v3 of the function */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32]; /* "00000000:3B:00.0" */
};

struct nvml_event {
    struct nvml_device *device;
    unsigned long long type; /* NVML_EVENT_… */
    unsigned long long data; /* the Xid */
    unsigned gpu_instance, compute_instance;
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int result);
    int (*driver_version)(char *version, unsigned size);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, struct nvml_device **device);
    int (*uuid)(struct nvml_device *device, char *uuid, unsigned size);
    int (*name)(struct nvml_device *device, char *name, unsigned size);
    int (*memory)(struct nvml_device *device, struct nvml_memory *memory);
    /* The following are NULL if the driver lacks them. */
    int (*memory_v2)(struct nvml_device *device, struct nvml_memory_v2 *memory);
    int (*utilization)(struct nvml_device *device, struct nvml_utilization *use);
    int (*processes)(struct nvml_device *device, unsigned *n, struct nvml_process *process);
    int (*processes_v1)(struct nvml_device *device, unsigned *n, struct nvml_process_v1 *process);
    int (*pci)(struct nvml_device *device, struct nvml_pci *pci);
    int (*memory_affinity)(struct nvml_device *device, unsigned n, unsigned long *nodes,
                           unsigned scope);
    int (*cpu_affinity)(struct nvml_device *device, unsigned n, unsigned long *cpus);
    int (*compute_mode)(struct nvml_device *device, int *mode);
    int (*mig_mode)(struct nvml_device *device, unsigned *now, unsigned *later);
    int (*mig_max)(struct nvml_device *device, unsigned *count);
    int (*mig_by_index)(struct nvml_device *device, unsigned index, struct nvml_device **mig);
    int (*mig_parent)(struct nvml_device *mig, struct nvml_device **device);
    int (*gpu_instance)(struct nvml_device *mig, unsigned *id);
    int (*compute_instance)(struct nvml_device *mig, unsigned *id);
    int (*ecc)(struct nvml_device *device, int type, int counter, unsigned long long *count);
    int (*event_set)(struct nvml_event_set **set);
    int (*event_types)(struct nvml_device *device, unsigned long long *types);
    int (*event_register)(struct nvml_device *device, unsigned long long types,
                          struct nvml_event_set *set);
    int (*event_wait)(struct nvml_event_set *set, struct nvml_event *event, unsigned ms);
    int (*event_free)(struct nvml_event_set *set);
};

/* Loads $CELLSPAN_NVML_LIBRARY, else libnvidia-ml.so.1, and initialises it, which may take seconds.
 * *absent: there is no library or no driver, so it is a node without GPUs. -1: *err has the reason
 * for users. */
MUST_USE int nvml_open(struct nvml *n, bool *absent, struct err *err);
void nvml_close(struct nvml *n); /* does nothing if it is not open */
const char *nvml_words(const struct nvml *n, int result);

#endif
