/* lent.h - blobs of this machine that leave it by way of the kernel: its agent lends their
 * descriptors, and from then on the kernel itself gives them chunk by chunk, as that agent would,
 * so that the bytes pass through no socket on the way. protocol/README.md, "Blobs between
 * nodes". */
#ifndef KERNEL_AGENTS_LENT_H
#define KERNEL_AGENTS_LENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/blob.h"
#include "protocol/span.h"

struct lent_blob;
struct lent_taker;

struct lent {
    struct lent_blob *blob;
    struct lent_taker *taker;
    size_t n, room;
    size_t n_takers, room_takers;
    size_t turn; /* whose it is to get the next chunk */
};

#define LENT_INIT { NULL, NULL, 0, 0, 0, 0, 0 }

void lent_release(struct lent *t); /* gives them all up, and leaves an empty table */
/* The agent's CHUNK that came without bytes: its blob is to be given to whom it names, from its
 * offset. `socket` is where the agent's descriptors come. -1: it has lent no such blob. */
MUST_USE int lent_begin(struct lent *t, int socket, const struct span *chunk, struct err *err);
/* A TAKEN for this machine's agent. false: it is not about what is given here. */
bool lent_taken(struct lent *t, const struct span *m, uint64_t now_ns);
/* The next CHUNK that is due, in turns; its bytes are borrowed until the blob is dropped. false:
 * none is due. */
bool lent_next(struct lent *t, struct span *m, uint64_t now_ns);
void lent_drop(struct lent *t, uint64_t blob); /* none is fine */

#endif
