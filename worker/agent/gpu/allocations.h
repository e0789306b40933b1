/* SPDX-License-Identifier: BSD-3-Clause */
/* allocations.h - which worker has which GPUs, for the files behind gpu.h. Who gets one is decided
 * in assign.c (gpu_take()). */
#ifndef WORKER_AGENT_GPU_ALLOCATIONS_H
#define WORKER_AGENT_GPU_ALLOCATIONS_H

#include <sys/types.h>

#include "base/err.h"
#include "worker/agent/gpu/gpu.h"
#include "worker/agent/gpu/gpu_list.h"
#include "worker/agent/gpu/probe_client.h"

struct hold {
    char uuid[GPU_TEXT];
    char visible[GPU_TEXT]; /* as CUDA_VISIBLE_DEVICES names it */
    int fd;                 /* the lease */
    bool lost;              /* somebody else has it, too, and this was logged */
};

/* The GPUs of one worker. */
struct allocation {
    struct allocation *next;
    uint32_t worker;
    bool share;
    bool lent;   /* its leases duplicate those of an allocation that assign.c looks after */
    bool own;    /* its worker sees no other GPUs */
    bool parked; /* its worker is not on them, and it has no leases: all fd are -1 */
    unsigned n;
    struct hold hold[];
};

struct gpu_turn;

/* What waits, and is to end before the allocations are closed: end() takes it off the list. */
struct unfinished {
    struct unfinished *next;
    void (*end)(struct unfinished *l);
};

struct gpu_allocations {
    struct loop *loop; /* borrowed */
    struct probe_client *client;
    struct gpus gpus; /* the last list */
    bool known;
    struct allocation *allocations; /* a list */
    int folder;                     /* the folder of the leases; -1: not opened yet */
    struct watch *keeper;           /* a timer while there are leases */
    struct gpu_turn *turn;          /* owned: our place among those who wait; NULL: we don't */
    struct watch *renewer;          /* a timer while we have a place */
    uint64_t asked_ns;              /* when the kernel has asked last */
    unsigned wants;                 /* how many GPUs we wait for; 0: none */
    struct unfinished *unfinished;  /* a list */
    unsigned quota;                 /* 0: none */
    char *quota_place;              /* owned: which file says so; NULL: the environment */
};

struct allocation *allocations_find(const struct gpu_allocations *d,
                                    uint32_t worker); /* NULL: none */
unsigned allocations_uses(const struct gpu_allocations *d,
                          const char *uuid); /* number of our own workers on it */
/* The folder of the leases, or -1. */
int allocations_folder(struct gpu_allocations *d, struct err *err);
/* [{"worker", "pid", "who", "gpus"}]. NULL: memory is out. */
json_t *allocations_workers(const struct gpu_allocations *d, const struct gpu_worker *worker,
                            size_t n);
json_t *allocation_uuids(const struct allocation *s); /* an empty list: NULL, or parked */

/* ---- assign.c ---- */
/* Errors of its GPUs belong to its worker from now on. */
void assign_mark(struct gpu_allocations *d, const struct allocation *s);

/* ---- waiting.c ---- */
/* Completes the list of GPUs, whose quota is in it: waits if gpu_wait() says so, and promises free
 * GPUs to those who came first. -1: memory is out. */
MUST_USE int waiting_add(struct gpu_allocations *d, json_t *root);
/* GPUs that are free, but kept for those who came first. */
#define WAITING_WHO 192u
struct kept_gpus {
    unsigned n;
    bool at[GPUS_MAX]; /* for each of d->gpus */
    char
        who[WAITING_WHO]; /* "alice (pid 4711, since 14:03), who waits for it": the first of them */
};
/* The folder of the leases is open. */
void waiting_kept(struct gpu_allocations *d, struct kept_gpus *out);
/* Waits for these GPUs and no others from now on, as gpu_wait() does for any. {"ahead", "why",
 * "stuck"} as the list of GPUs has them; NULL: memory is out. */
json_t *waiting_for(struct gpu_allocations *d, const struct gpus *which);

/* ---- quota.c ---- */
/* {"may": how many GPUs this notebook may hold, "text": why no more}, or null if there is no quota.
 * NULL: memory is out. */
json_t *quota_json(const struct gpu_allocations *d);
unsigned quota_own(const struct gpu_allocations *d); /* how many GPUs this notebook holds */
/* -1: this user's notebooks hold more than the quota, and *err says which. before: quota_own()
 * before the GPUs were taken that are to be checked. */
MUST_USE int quota_check(const struct gpu_allocations *d, unsigned before, struct err *err);

/* ---- affinity.c: binds a rank to the processors near its GPU ---- */
/* Binds all threads of the process to those of `cpus` ("0-31,64-95") that it may use now (an engine
 * may have bound us to a few). If that leaves none, or all of them, it changes nothing. 1: it was
 * bound; 0: nothing to do; -1: *err. */
MUST_USE int affinity_bind(pid_t pid, const char *cpus, struct err *err);

#endif
