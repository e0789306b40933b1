/* lent.h - blobs of this machine that leave it by way of the kernel: its agent lends their descriptors, and the kernel
 * reads the bytes of each chunk itself, so that they pass through no socket on the way. protocol/README.md, "Blobs
 * between nodes". */
#ifndef KERNEL_AGENTS_LENT_H
#define KERNEL_AGENTS_LENT_H

#include <stddef.h>

#include "base/buf.h"
#include "protocol/span.h"

struct lent_blob;

struct lent {
    struct lent_blob *blob;
    size_t n, room;
    struct buf chunk; /* the bytes of the one that was filled last */
};

#define LENT_INIT { NULL, 0, 0, BUF_INIT }

void lent_release(struct lent *t); /* closes them all, and leaves an empty table */
/* Puts the bytes into a CHUNK that came without: they are borrowed until the next call. `socket` is where the agent's
 * descriptors come. -1: it has lent no such blob, or it can't be read. */
MUST_USE int lent_fill(struct lent *t, int socket, struct span *chunk, struct err *err);
void lent_drop(struct lent *t, uint64_t blob); /* none is fine */

#endif
