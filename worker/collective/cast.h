/* cast.h - a parcel's bytes from one rank to the others by ncclBroadcast: through the GPUs into
 * host memory, or into GPU memory where that is where they belong. */
#ifndef WORKER_COLLECTIVE_CAST_H
#define WORKER_COLLECTIVE_CAST_H

#include "worker/collective/comm.h"

#define CAST_CHUNK (8u << 20) /* bytes that travel at once; two are on their way */

struct cast;

/* Over a communicator that all ranks of the cast have joined, which it takes in all cases. `l` is
 * borrowed until cast_close. NULL: *err says why. */
struct cast *cast_create(struct comm *comm, unsigned rank, unsigned root, const struct limit *l,
                         struct err *err);
/* `size` bytes, at `offset` of the descriptor: read there by the root. On the others they go to the
 * same place of theirs, or, where `device` is not 0, to that GPU memory; the root puts them into
 * its own `device` as well. All ranks call it alike, each with a device of 0 or not. -1: the cast
 * can't go on. */
MUST_USE int cast_bytes(struct cast *c, int fd, uint64_t offset, uint64_t size, cu_pointer device,
                        struct err *err);
void cast_close(struct cast *c, bool well); /* NULL is fine */

#endif
