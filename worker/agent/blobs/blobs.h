/* SPDX-License-Identifier: BSD-3-Clause */
/* blobs.h - table of the blobs that this node holds completely. The kernel numbers them. */
#ifndef WORKER_AGENT_BLOBS_BLOBS_H
#define WORKER_AGENT_BLOBS_BLOBS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct blob {
    uint64_t number;
    uint64_t size;
    int fd; /* owned by the table */
};

struct blobs {
    struct blob *blob; /* in the order of their numbers */
    size_t n, room;
};

#define BLOBS_INIT { NULL, 0, 0 }

void blobs_release(struct blobs *b);
/* Takes ownership of fd, also on failure. Replaces a blob that has this number already. -1: memory
 * is out. */
MUST_USE int blobs_put(struct blobs *b, uint64_t number, uint64_t size, int fd);
const struct blob *blobs_get(const struct blobs *b, uint64_t number); /* borrowed; NULL: none */
void blobs_drop(struct blobs *b, uint64_t number); /* nothing happens if there is none */

#endif
