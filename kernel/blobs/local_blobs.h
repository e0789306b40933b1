/* SPDX-License-Identifier: BSD-3-Clause */
/* local_blobs.h - blobs of this machine that the kernel sends to other nodes. The local agent
 * shares their file descriptors, and the kernel reads the chunks from them: so the bytes pass
 * through no socket between the two. protocol/README.md, "Blobs between nodes". */
#ifndef KERNEL_BLOBS_LOCAL_BLOBS_H
#define KERNEL_BLOBS_LOCAL_BLOBS_H

#include "base/blob.h"
#include "protocol/span.h"

struct local_blob;
struct local_blob_receiver;

struct local_blobs {
    struct local_blob *blob;
    struct local_blob_receiver *receiver;
    size_t n, room;
    size_t n_receivers, room_receivers;
    size_t turn; /* the receiver that gets the next chunk */
};

#define LOCAL_BLOBS_INIT { NULL, NULL, 0, 0, 0, 0, 0 }

void local_blobs_release(struct local_blobs *t); /* leaves an empty table */
/* The local agent has sent a CHUNK without bytes: from now on the kernel sends that blob to the
 * receiver that the CHUNK names, from its offset on. Descriptors come through `socket`. -1: the
 * agent has shared no such blob, or memory is out. */
MUST_USE int local_blobs_begin(struct local_blobs *t, int socket, const struct span *chunk,
                               struct err *err);
/* Takes a CHUNK_ACK that is for the local agent. false: it is about a blob that the agent itself
 * sends. */
bool local_blobs_acked(struct local_blobs *t, const struct span *m, uint64_t now_ns);
/* A SHIP for what the kernel sends already: unanswered chunks are sent again. false: it does not
 * send that. */
bool local_blobs_again(struct local_blobs *t, const struct span *ship);
/* The next CHUNK that flow control allows; the receivers take turns. Its bytes are borrowed until
 * the blob is dropped. false: none is allowed now. */
bool local_blobs_next(struct local_blobs *t, struct span *m, uint64_t now_ns);
void local_blobs_drop(struct local_blobs *t, uint64_t blob); /* does nothing if there is none */

#endif
