/* transfer_io.h - the transfers's place in the agent: the links it sends on, the loop that gives it
 * its turns, the memory it may fill, and the messages of workers that wait for what it brings. A
 * door. */
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
    struct blobs *blobs;        /* borrowed; complete blobs are put there */
    bool same_machine;          /* as the kernel: it may be given descriptors */
    /* The blob is in the table now; or it won't come: error, for the user, says why. */
    void (*settled)(void *arg, uint64_t blob, const char *error);
    void *arg;
};

/* config is copied. NULL: *err says why. */
struct transfer_io *transfer_io_create(const struct transfer_io_config *config, struct err *err);
void transfer_io_destroy(struct transfer_io *f); /* NULL is fine */

/* EXPECT, SHIP, CHUNK, TAKEN from the kernel. */
void transfer_io_message(struct transfer_io *f, const struct span *m);
void transfer_io_drop(struct transfer_io *f, uint64_t blob); /* DROP, also of what is whole */
/* Nobody here waits for it any more: what is still on its way need not come. */
void transfer_io_unwanted(struct transfer_io *f, uint64_t blob);
bool transfer_io_expects(const struct transfer_io *f, uint64_t blob);
/* Why that blob is not here, for the user; valid until the next call of anything here. */
const char *transfer_io_why(const struct transfer_io *f, uint64_t blob);

/* A message on the link for blobs with a node, and the end of that link. */
void transfer_io_peer(struct transfer_io *f, uint32_t node, struct slice msg);
void transfer_io_unlinked(struct transfer_io *f, uint32_t node, const char *why);

#endif
