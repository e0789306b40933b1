/* local_blobs.h - blobs of this machine that leave it by way of the kernel: its agent lends their
 * descriptors, and from then on the kernel itself gives them chunk by chunk, as that agent would,
 * so that the bytes pass through no socket on the way. protocol/README.md, "Blobs between
 * nodes". */
#ifndef KERNEL_BLOBS_LOCAL_BLOBS_H
#define KERNEL_BLOBS_LOCAL_BLOBS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/blob.h"
#include "protocol/span.h"

struct local_blob;
struct local_blob_receiver;

struct local_blobs {
    struct local_blob *blob;
    struct local_blob_receiver *receiver;
    size_t n, room;
    size_t n_receivers, room_receivers;
    size_t turn; /* whose it is to get the next chunk */
};

#define LOCAL_BLOBS_INIT { NULL, NULL, 0, 0, 0, 0, 0 }

void local_blobs_release(struct local_blobs *t); /* gives them all up, and leaves an empty table */
/* The agent's CHUNK that came without bytes: its blob is to be given to whom it names, from its
 * offset. `socket` is where the agent's descriptors come. -1: it has local no such blob. */
MUST_USE int local_blobs_begin(struct local_blobs *t, int socket, const struct span *chunk,
                               struct err *err);
/* A TAKEN for this machine's agent. false: it is not about what is given here. */
bool local_blobs_taken(struct local_blobs *t, const struct span *m, uint64_t now_ns);
/* The next CHUNK that is due, in turns; its bytes are borrowed until the blob is dropped. false:
 * none is due. */
bool local_blobs_next(struct local_blobs *t, struct span *m, uint64_t now_ns);
void local_blobs_drop(struct local_blobs *t, uint64_t blob); /* none is fine */

#endif
