/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu.h - the GPUs of a node, for its agent: the list of GPUs, which worker has which, their
 * current readings, and what went wrong on them.
 *
 * A separate process (probe_client.h) asks the driver; the first question starts it. So nothing
 * here blocks, and an agent is as fast on a node without GPUs or with a driver that hangs. The
 * agent itself holds the leases (lease.h). */
#ifndef WORKER_AGENT_GPU_GPU_H
#define WORKER_AGENT_GPU_GPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/loop/loop.h"
#include "base/slice.h"

#define GPU_GAUGE_MAX 2048u /* workers whose memory is reported */
#define GPU_TEXT_MAX  1024u /* bytes of EXITED's `gpu` */

struct gpu_allocations;

struct gpu_worker {
    uint32_t worker;
    long pid;        /* 0: not known yet */
    const char *who; /* "rank 3", "home"; borrowed for the call */
};

/* Cheap: starts nothing. NULL: *err. */
struct gpu_allocations *gpu_open(struct loop *loop, struct err *err);
/* releases all leases, and calls waiting callbacks now; NULL is fine */
void gpu_close(struct gpu_allocations *d);

/* json: the field of GPUS or GAUGES; borrowed. */
typedef void (*gpu_json_f)(void *arg, struct slice json);
/* f is called once, from the loop or at once. */
void gpu_list(struct gpu_allocations *d, gpu_json_f f, void *arg);
void gpu_gauges(struct gpu_allocations *d, const struct gpu_worker *worker, size_t n, gpu_json_f f,
                void *arg);

/* Gets the list of GPUs again, then calls f from the loop. -1: *err, and f is not called. */
typedef void (*gpu_known_f)(void *arg);
MUST_USE int gpu_query(struct gpu_allocations *d, gpu_known_f f, void *arg, struct err *err);
/* May there be GPUs here? A guess without a question to the driver; used to tell ranks without GPUs
 * that they have none. */
bool gpu_likely(const struct gpu_allocations *d);

/* How many GPUs of the machine all notebooks of one user may hold together (0: any number), and
 * which file says so ("": the environment). For gpu_list and gpu_take, from now on. */
void gpu_quota(struct gpu_allocations *d, unsigned most, struct slice place);
/* With the next gpu_list, gets in the queue of the machine for so many GPUs, or stays there. 0:
 * leaves it at once. gpu_take leaves it, too, when it has given GPUs. */
void gpu_wait(struct gpu_allocations *d, unsigned wants);

/* Call it after gpu_query. Takes `each` GPUs for each of n workers, or none for any, in the order
 * of workers and GPUs. share: several workers, and others on this machine, may hold the same GPUs.
 * -1: *err says how many there are, who holds them, and what the user can do. */
MUST_USE int gpu_take(struct gpu_allocations *d, const uint32_t *worker, size_t n, unsigned each,
                      bool share, struct err *err);
/* Lets `worker` use the GPUs of worker `of`, too. The leases last until both have released them.
 * -1: *err. */
MUST_USE int gpu_lend(struct gpu_allocations *d, uint32_t of, uint32_t worker, struct err *err);
void gpu_release(struct gpu_allocations *d, uint32_t worker); /* releases its GPUs, if it has any */
bool gpu_has(const struct gpu_allocations *d, uint32_t worker);
/* From now on the worker sees only its own GPUs, and no other worker sees these. */
void gpu_hide_others(struct gpu_allocations *d, uint32_t worker);
/* Moves what these workers have on their GPUs to the host's memory, and gives up the leases; or
 * takes the same leases again, and moves it back (checkpoint.h). f gets {"workers": [[worker,
 * "parked" | "running" | "lost"]], "why": text or null, "held": somebody else has a lease of
 * theirs, or has waited for it for longer, "bytes", "queue": our place, as in the list of GPUs},
 * within GPU_PARK_NS. nccl: they have communicators with each other. Memory of the host that others
 * need who leave their GPUs at the same time is waited for, half a minute. wait: if it is held,
 * gets in the queue for these GPUs, or stays there; it leaves when they are back, or as gpu_wait()
 * says. */
#define GPU_PARK_NS (600 * NS_PER_S)
void gpu_park(struct gpu_allocations *d, const struct gpu_worker *worker, size_t n, bool nccl,
              gpu_json_f f, void *arg);
void gpu_return(struct gpu_allocations *d, const struct gpu_worker *worker, size_t n, bool wait,
                gpu_json_f f, void *arg);
/* The values for the worker's environment, comma-separated and appended. mate: n workers in the
 * order of ranks, including this one. visible: CUDA_VISIBLE_DEVICES, the GPUs of all mates:
 * numbers, valid with CUDA_DEVICE_ORDER=PCI_BUS_ID, or UUIDs. own: which of these are its own,
 * counted from 0: "2,3". A worker sees only its own GPUs after gpu_hide_others, if it shares them,
 * or if it has a MIG instance (a process can use only one). Other workers don't see these GPUs. -1:
 * memory is out. */
MUST_USE int gpu_visible(const struct gpu_allocations *d, uint32_t worker, const uint32_t *mate,
                         size_t n, struct buf *visible, struct buf *own);
/* The worker's process has started: binds it to the processors near its GPU. */
void gpu_bind(struct gpu_allocations *d, uint32_t worker, pid_t pid);

/* The text of EXITED about a dead worker's GPUs: "GPU 1 (GPU-8f2c…, NVIDIA A100)", then Xids and
 * ECC errors since it got them. If `said` (its last lines) complains about GPU memory, also whose
 * memory is on them. f is called once, from the loop or at once; a driver that does not answer
 * delays it only for a moment. others: the workers that live. Afterwards release the GPUs with
 * gpu_release. */
typedef void (*gpu_text_f)(void *arg, const char *text);
void gpu_death_report(struct gpu_allocations *d, uint32_t worker, struct slice said,
                      const struct gpu_worker *others, size_t n, gpu_text_f f, void *arg);

/* The same for a living worker whose output reports that GPU memory is full: whose memory is on its
 * GPUs now. all: the living workers, including this one. */
void gpu_full(struct gpu_allocations *d, uint32_t worker, const struct gpu_worker *all, size_t n,
              gpu_text_f f, void *arg);

#endif
