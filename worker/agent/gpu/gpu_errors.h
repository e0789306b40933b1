/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_errors.h - texts for users about problems with GPUs. Pure. */
#ifndef WORKER_AGENT_GPU_ERRORS_H
#define WORKER_AGENT_GPU_ERRORS_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "worker/agent/gpu/gpu_list.h"

/* Does the text, a worker's last lines, say that its GPU ran out of memory? */
bool gpu_errors_say_oom(struct slice text);

/* Appends "GPU 1 (GPU-8f2c…, NVIDIA A100)" and, if `since` (the probe's answer; NULL: none) has
 * something about it, ": Xid 79: GPU has fallen off the bus; …". oom: its worker said that the GPU
 * ran out of memory. -1: memory is out. */
MUST_USE int gpu_errors_add_gpu(const struct gpu *one, const json_t *since, bool oom,
                                struct buf *out);

struct gpu_shortage {
    unsigned ranks, each; /* requested */
    unsigned all, free;   /* GPUs of this node that cellspan may use; those that nobody holds */
    const char *why;      /* why there are none at all, or "" */
};

/* Appends why ranks get no GPU, but not who holds the others. */
MUST_USE int gpu_errors_add_shortage(const struct gpu_shortage *s, struct buf *out);
/* Appends what the user can do about it. Call it last. */
MUST_USE int gpu_errors_add_remedies(const struct gpu_shortage *s, struct buf *out);

#endif
