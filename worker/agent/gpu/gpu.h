/* gpu.h - the GPUs of a node, for its agent: which there are, which worker has which, how they do,
 * and what killed whom.
 *
 * The driver is asked by a process of its own (client.h), at the first question and not before:
 * nothing here blocks, and an agent on a node without GPUs, or whose driver hangs, is as quick as
 * any. Leases (lease.h) are the agent's own.
 */
#ifndef WORKER_AGENT_GPU_GPU_H
#define WORKER_AGENT_GPU_GPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/loop/loop.h"
#include "base/slice.h"

#define GPU_GAUGE_MAX 2048u /* workers whose memory is told */
#define GPU_TEXT_MAX  1024u /* bytes of EXITED's `gpu` */

struct gpu_desk;

struct gpu_worker {
    uint32_t worker;
    long pid;        /* 0: not known yet */
    const char *who; /* "rank 3", "home"; borrowed for the call */
};

/* Cheap: starts nothing. NULL: *err. */
struct gpu_desk *gpu_open(struct loop *loop, struct err *err);
/* gives all leases back; who still waits is called now; NULL is fine */
void gpu_close(struct gpu_desk *d);

/* `json` is what GPUS or GAUGES carry; borrowed. */
typedef void (*gpu_json_f)(void *arg, struct slice json);
/* f is called once, from the loop or at once. */
void gpu_list(struct gpu_desk *d, gpu_json_f f, void *arg);
void gpu_gauges(struct gpu_desk *d, const struct gpu_worker *worker, size_t n, gpu_json_f f,
                void *arg);

/* Calls f from the loop once the GPUs are known; they are looked up anew. -1: *err, and f is not
 * called. */
typedef void (*gpu_known_f)(void *arg);
MUST_USE int gpu_look(struct gpu_desk *d, gpu_known_f f, void *arg, struct err *err);
/* May there be GPUs here? A guess that asks nobody: for telling ranks without GPUs that they have
 * none. */
bool gpu_likely(const struct gpu_desk *d);

/* After gpu_look: `each` GPUs for every one of n workers, all or none, in the order of both. share:
 * several workers, and others on this machine, may have the same. -1: *err says how many there are,
 * who holds them, and what can be done. */
MUST_USE int gpu_take(struct gpu_desk *d, const uint32_t *worker, size_t n, unsigned each,
                      bool share, struct err *err);
/* `worker` uses the GPUs of `of`, which has some, as well; the leases last until both have given
 * them back. -1: *err. */
MUST_USE int gpu_lend(struct gpu_desk *d, uint32_t of, uint32_t worker, struct err *err);
void gpu_give(struct gpu_desk *d, uint32_t worker); /* any worker: most have none */
bool gpu_has(const struct gpu_desk *d, uint32_t worker);
/* It is to see no GPUs but its own, and nobody else is to see those. */
void gpu_hide_others(struct gpu_desk *d, uint32_t worker);
/* What the worker's environment is to say. visible: CUDA_VISIBLE_DEVICES, all that `mate` have,
 * which are n workers in the order of ranks, itself among them: by numbers, which hold under
 * CUDA_DEVICE_ORDER=PCI_BUS_ID, or by UUIDs; own: which of these are its own, counted from 0, as
 * "2,3". One that is to see no others, shares its GPUs, or has a MIG instance (CUDA takes one of
 * those a process), sees its own alone, and nobody else sees what is shared. Both are appended to,
 * separated by commas. -1: memory is out. */
MUST_USE int gpu_visible(const struct gpu_desk *d, uint32_t worker, const uint32_t *mate, size_t n,
                         struct buf *visible, struct buf *own);
/* Its process is known now: keeps it to the processors near its GPU. */
void gpu_bind(struct gpu_desk *d, uint32_t worker, pid_t pid);

/* What EXITED says of a dead worker's GPUs: "GPU 1 (GPU-8f2c…, NVIDIA A100)", then Xids and ECC
 * errors since it got them, and, when `said` (its last lines) complains of it, whose memory is on
 * them. f is called once, from the loop or at once; a driver that does not answer costs no more
 * than a moment. `others`: those that live. The GPUs are given back by gpu_give. */
typedef void (*gpu_text_f)(void *arg, const char *text);
void gpu_autopsy(struct gpu_desk *d, uint32_t worker, struct slice said,
                 const struct gpu_worker *others, size_t n, gpu_text_f f, void *arg);

/* As gpu_autopsy, of a worker that lives and complains: whose memory is on its GPUs now. `all`:
 * with itself. */
void gpu_full(struct gpu_desk *d, uint32_t worker, const struct gpu_worker *all, size_t n,
              gpu_text_f f, void *arg);

#endif
