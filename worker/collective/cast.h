/* cast.h - sends a parcel's bytes from one rank to all others by ncclBroadcast: through the GPUs
 * into host memory, or into GPU memory if they belong there. */
#ifndef WORKER_COLLECTIVE_CAST_H
#define WORKER_COLLECTIVE_CAST_H

#include "worker/collective/comm.h"

#define CAST_CHUNK (8u << 20) /* bytes of one transfer; two are in progress at a time */

struct cast;

/* comm: joined by all ranks of the cast; always takes ownership, also on failure. `l` is borrowed
 * until cast_close. NULL: *err says why. */
struct cast *cast_create(struct comm *comm, unsigned rank, unsigned root, const struct limit *l,
                         struct err *err);
/* Sends `size` bytes. The root reads them from its descriptor at `offset`. The other ranks write
 * them to their descriptor at the same offset or, if `device` is not 0, to that GPU memory. If the
 * root's `device` is not 0, it copies them there as well. All ranks must make the same calls,
 * except for `device`. -1: the cast can't go on. */
MUST_USE int cast_bytes(struct cast *c, int fd, uint64_t offset, uint64_t size, cu_pointer device,
                        struct err *err);
void cast_close(struct cast *c, bool well); /* well: nothing failed. NULL is fine */

#endif
