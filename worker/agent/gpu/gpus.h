/* gpus.h - the GPUs of a node that cellspan may use: MIG instances stand for the GPU that they are
 * on. Pure. */
#ifndef WORKER_AGENT_GPU_GPUS_H
#define WORKER_AGENT_GPU_GPUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define GPUS_MAX  512u /* devices of one node; 16 GPUs with 7 instances each are 112 */
#define GPU_TEXT  96u
#define GPU_CPUS  256u
#define GPU_LABEL 256u

struct gpu {
    char uuid[GPU_TEXT]; /* "GPU-8f2c…", "MIG-41c1…": what CUDA_VISIBLE_DEVICES takes */
    char name[GPU_TEXT];
    char pci[32];          /* "0000:3b:00.0", as sysfs writes it; "" when unknown */
    char cpus[GPU_CPUS];   /* those near it, "0-31,64-95"; "" when unknown */
    char parent[GPU_TEXT]; /* of a MIG instance: the GPU that it is on; "" else */
    unsigned index;        /* of the GPU in the driver's order; a MIG instance has its GPU's */
    int instance;          /* of a MIG instance: its number on the GPU; -1: a whole GPU */
    /* of a MIG instance: its GPU and compute instance, for the names of older drivers; -1:
     * unknown */
    int gi, ci;
    int numa;        /* -1: unknown, or the machine has only one */
    uint64_t memory; /* bytes */
};

struct gpus {
    struct gpu *v; /* owned; in the driver's order */
    size_t n;
    /* `index` is CUDA's number, too, in the order of PCI: no GPU is in MIG mode, and NVML told */
    bool numbered;
    unsigned all;    /* devices before CUDA_VISIBLE_DEVICES was looked at */
    char driver[80]; /* "550.54.15"; "" when unknown */
    char why[512];   /* why there is none; "" when there are some */
};

void gpus_release(struct gpus *g);
MUST_USE int gpus_add(struct gpus *g, const struct gpu *one, struct err *err); /* copies */
const struct gpu *gpus_find(const struct gpus *g, const char *uuid);           /* NULL: not there */
/* Keeps those that the value of CUDA_VISIBLE_DEVICES (NULL: unset) names, in its order, by CUDA's
 * rules. What is left out, and why, is in g->why when nothing is left. */
MUST_USE int gpus_mask(struct gpus *g, const char *visible, struct err *err);
/* "GPU 1 (GPU-8f2c…, NVIDIA A100)", "GPU 1 MIG 0 (MIG-41c1…, …)". */
const char *gpu_label(const struct gpu *one, char out[static GPU_LABEL]);

/* {"gpus": [{…}], "driver": "550.54.15", "why": null}: also between the agent and the process that
 * asks the driver. */
json_t *gpus_to_json(const struct gpus *g); /* NULL: memory is out */
/* Replaces what g holds; on failure it is as it was. */
MUST_USE int gpus_from_json(struct gpus *g, const json_t *json, struct err *err);

#endif
