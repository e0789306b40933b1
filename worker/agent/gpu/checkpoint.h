/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint.h - moves what processes have on GPUs to the host's memory, and back, by the CUDA
 * driver (its functions cuCheckpointProcess…, from driver 570 on). Such a process keeps its
 * addresses, streams and values, and blocks at its next call of CUDA until it is back. Only the
 * process cellspan-gpus calls this: it may take minutes. */
#ifndef WORKER_AGENT_GPU_CHECKPOINT_H
#define WORKER_AGENT_GPU_CHECKPOINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct gpu_driver;

/* CUprocessState */
enum checkpoint_state {
    CHECKPOINT_RUNNING,
    CHECKPOINT_LOCKED,    /* it blocks at its next call, but is on its GPUs */
    CHECKPOINT_AWAY,      /* in the host's memory */
    CHECKPOINT_FAILED,    /* it can't be used any more */
    CHECKPOINT_NONE = 100 /* it does not use CUDA, or the driver can't find it */
};

/* What the driver takes: 64 bytes, all of them 0 but the lock's time limit. */
struct checkpoint_args {
    unsigned timeout_ms, zero;
    uint64_t zeros[7];
};

struct checkpoint_calls {
    void *library; /* NULL: not open */
    int (*init)(unsigned flags);
    int (*error_string)(int result, const char **words); /* may be NULL */
    int (*state)(int pid, int *state);
    int (*lock)(int pid, struct checkpoint_args *args);
    int (*away)(int pid, struct checkpoint_args *args);
    int (*back)(int pid, struct checkpoint_args *args);
    int (*unlock)(int pid, struct checkpoint_args *args);
};

struct parking {
    bool nccl; /* they have communicators with each other */
    /* How many bytes the host's memory has for them now; sets `of`. */
    uint64_t (*room)(struct parking *how);
    const char *of; /* by which limit */
    uint64_t given; /* for tests: what `room` gives */
};

/* {"states": [[worker, "parked" | "running" | "lost"]], "why": text or null, "bytes", "crowded":
 * the memory is reserved for others that are leaving now}, after all processes of the workers were
 * moved away, or none. workers: as in probe.h. NULL: memory is out. */
json_t *checkpoint_park(struct gpu_driver *d, const json_t *workers, struct parking *how,
                        struct err *err);
/* The same, after they are back; or all of them are away still, as the GPUs have no room. Whatever
 * their processes were in the midst of: each goes on from its own state. parked: it is known that
 * all of them are away. If it is not, and the driver can't be asked, they are lost: others may not
 * get their GPUs before they end. */
json_t *checkpoint_return(struct gpu_driver *d, const json_t *workers, bool parked,
                          struct err *err);
void checkpoint_close(struct checkpoint_calls *calls); /* does nothing if it is not open */

#endif
