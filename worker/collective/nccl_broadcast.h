/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_broadcast.h - sends a bundle's bytes from one rank to all others by ncclBroadcast: through
 * the GPUs into host memory, or into GPU memory if they belong there. */
#ifndef WORKER_COLLECTIVE_NCCL_BROADCAST_H
#define WORKER_COLLECTIVE_NCCL_BROADCAST_H

#include "worker/collective/comm.h"

#define BROADCAST_CHUNK (8u << 20) /* bytes of one transfer; two are in progress at a time */

struct nccl_broadcast;

/* comm: joined by all ranks of the broadcast; always takes ownership, also on failure. `l` is
 * borrowed until nccl_broadcast_close. NULL: *err says why. */
struct nccl_broadcast *nccl_broadcast_create(struct comm *comm, unsigned rank, unsigned root,
                                             const struct deadline *l, struct err *err);
/* Sends `size` bytes. The root reads them from its descriptor at `offset`. The other ranks write
 * them to their descriptor at the same offset or, if `device` is not 0, to that GPU memory. If the
 * root's `device` is not 0, it copies them there as well. All ranks must make the same calls,
 * except for `device`. -1: the broadcast can't go on. */
MUST_USE int nccl_broadcast_bytes(struct nccl_broadcast *c, int fd, uint64_t offset, uint64_t size,
                                  cu_pointer device, struct err *err);
void nccl_broadcast_close(struct nccl_broadcast *c,
                          bool well); /* well: nothing failed. NULL is fine */

#endif
