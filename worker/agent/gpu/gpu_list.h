/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_list.h - the list of GPUs of a node that cellspan may use. A GPU in MIG mode is replaced by
 * its instances. Pure. */
#ifndef WORKER_AGENT_GPU_GPU_LIST_H
#define WORKER_AGENT_GPU_GPU_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define GPUS_MAX  512u /* devices of one node; 16 GPUs with 7 instances each are 112 */
#define GPU_TEXT  96u
#define GPU_CPUS  256u
#define GPU_LABEL 256u

struct gpu {
    char uuid[GPU_TEXT]; /* "GPU-8f2c…", "MIG-41c1…": what CUDA_VISIBLE_DEVICES takes */
    char name[GPU_TEXT];
    char pci[32];          /* "0000:3b:00.0", as in sysfs; "" if unknown */
    char cpus[GPU_CPUS];   /* CPUs near it, "0-31,64-95"; "" if unknown */
    char parent[GPU_TEXT]; /* the GPU of a MIG instance; "" for a whole GPU */
    unsigned index;        /* in the driver's order; a MIG instance has its GPU's */
    int instance;          /* number of a MIG instance on its GPU; -1: a whole GPU */
    /* GPU instance and compute instance of a MIG instance, for the names of older drivers; -1:
     * unknown */
    int gi, ci;
    bool exclusive;  /* only one process can use it: its compute mode is EXCLUSIVE_PROCESS */
    int numa;        /* -1: unknown, or the machine has only one */
    uint64_t memory; /* bytes */
};

struct gpus {
    struct gpu *v; /* owned; in the driver's order */
    size_t n;
    /* `index` is also CUDA's number with PCI order: the list is from NVML, without MIG mode */
    bool numbered;
    unsigned all;    /* number of devices before CUDA_VISIBLE_DEVICES was applied */
    char driver[80]; /* "550.54.15"; "" if unknown */
    char why[512];   /* why there is no GPU; "" if there are some */
};

void gpus_release(struct gpus *g);
MUST_USE int gpus_add(struct gpus *g, const struct gpu *one, struct err *err); /* copies */
const struct gpu *gpus_find(const struct gpus *g, const char *uuid);           /* NULL: not there */
/* Applies CUDA_VISIBLE_DEVICES (visible; NULL: unset) by CUDA's rules: keeps the devices that it
 * names, in its order. If none is left, g->why says why. */
MUST_USE int inherited_mask_apply(struct gpus *g, const char *visible, struct err *err);
/* "GPU 1 (GPU-8f2c…, NVIDIA A100)", "GPU 1 MIG 0 (MIG-41c1…, …)". */
const char *gpu_label(const struct gpu *one, char out[static GPU_LABEL]);

/* {"gpus": [{…}], "driver": "550.54.15", "why": null}; cellspan-gpus sends this to the agent. */
json_t *gpus_to_json(const struct gpus *g); /* NULL: memory is out */
/* Replaces the content of g; on failure g is unchanged. */
MUST_USE int gpus_from_json(struct gpus *g, const json_t *json, struct err *err);

#endif
