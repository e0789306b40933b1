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

struct agent;
struct transfer_io;

/* agent is borrowed. NULL: *err says why. */
struct transfer_io *transfer_io_create(struct agent *a, struct err *err);
void transfer_io_destroy(struct transfer_io *f); /* NULL is fine */

/* EXPECT, SHIP, CHUNK, TAKEN from the kernel. */
void transfer_io_message(struct transfer_io *f, const struct span *m);
void transfer_io_drop(struct transfer_io *f, uint64_t blob); /* DROP, also of what is whole */
/* Nobody here waits for it any more: what is still on its way need not come. */
void transfer_io_unwanted(struct transfer_io *f, uint64_t blob);
bool transfer_io_expects(const struct transfer_io *f, uint64_t blob);
/* Why that blob is not here, for the user; valid until the next call of anything here. */
const char *transfer_io_why(const struct transfer_io *f, uint64_t blob);

/* For uplink_handler: a message on the link for blobs with a node, and the end of that link. */
void transfer_io_peer(void *agent, uint32_t node, struct slice msg);
void transfer_io_unlinked(void *agent, uint32_t node, const char *why);

#endif
