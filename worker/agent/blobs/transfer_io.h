/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer_io.h - connects transfers.h with sockets and memory: sends its messages, calls it from
 * the event loop, tells it how much memory is free, and reports blobs that arrived. */
#ifndef WORKER_AGENT_BLOBS_TRANSFER_IO_H
#define WORKER_AGENT_BLOBS_TRANSFER_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "protocol/span.h"

struct blobs;
struct kernel_link;
struct transfer_io;

struct transfer_io_config {
    struct kernel_link *kernel; /* borrowed */
    struct blobs *blobs;        /* borrowed; gets the complete blobs */
    bool same_machine;          /* the kernel is on this machine and can take descriptors */
    /* The blob is in the table now. Or it will not arrive: then `error` says why, for the user. */
    void (*settled)(void *arg, uint64_t blob, const char *error);
    void *arg;
};

/* config is copied. NULL: *err says why. */
struct transfer_io *transfer_io_create(const struct transfer_io_config *config, struct err *err);
void transfer_io_destroy(struct transfer_io *t); /* NULL is fine */

/* EXPECT, SHIP, CHUNK, CHUNK_ACK from the kernel. */
void transfer_io_message(struct transfer_io *t, const struct span *m);
void transfer_io_drop(struct transfer_io *t, uint64_t blob); /* DROP, also of a complete blob */
/* No worker waits for this blob any more: it need not be sent on. */
void transfer_io_unwanted(struct transfer_io *t, uint64_t blob);
bool transfer_io_expects(const struct transfer_io *t, uint64_t blob);
/* Why the blob is not here, for the user. Valid until the next call of a function of this file. */
const char *transfer_io_why(const struct transfer_io *t, uint64_t blob);

void transfer_io_resumed(struct transfer_io *t); /* the kernel has a new connection */

/* A message on the connection for blobs with a node, and the end of that connection. */
void transfer_io_peer(struct transfer_io *t, uint32_t node, struct slice msg);
void transfer_io_unlinked(struct transfer_io *t, uint32_t node, const char *why);

#endif
