/* ferry.h - the carrier's place in the agent: the links it sends on, the loop that gives it its
 * turns, the memory it may fill, and the letters of workers that wait for what it brings. A
 * door. */
#ifndef WORKER_AGENT_FERRY_H
#define WORKER_AGENT_FERRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "protocol/span.h"

struct agent;
struct ferry;

/* agent is borrowed. NULL: *err says why. */
struct ferry *ferry_create(struct agent *a, struct err *err);
void ferry_destroy(struct ferry *f); /* NULL is fine */

/* EXPECT, SHIP, CHUNK, TAKEN from the kernel. */
void ferry_message(struct ferry *f, const struct span *m);
void ferry_drop(struct ferry *f, uint64_t blob); /* DROP, also of what is whole */
/* Nobody here waits for it any more: what is still on its way need not come. */
void ferry_unwanted(struct ferry *f, uint64_t blob);
bool ferry_expects(const struct ferry *f, uint64_t blob);
/* Why that blob is not here, for the user; valid until the next call of anything here. */
const char *ferry_why(const struct ferry *f, uint64_t blob);

/* For uplink_handler: a message on the link for blobs with a node, and the end of that link. */
void ferry_peer(void *agent, uint32_t node, struct slice msg);
void ferry_unlinked(void *agent, uint32_t node, const char *why);

#endif
