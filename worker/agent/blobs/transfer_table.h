/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer_table.h - the blobs that are being sent to this node, from it, or both at once, and
 * their receivers. A complete transfer without receivers is removed. Pure, but it closes
 * descriptors. */
#ifndef WORKER_AGENT_BLOBS_TRANSFER_TABLE_H
#define WORKER_AGENT_BLOBS_TRANSFER_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/send_window.h"

/* A node, or the kernel, that gets the blob from this node. */
struct receiver {
    struct receiver *next;
    uint32_t to;   /* its number in CHUNK and CHUNK_ACK */
    uint32_t link; /* the connection to it: a peer's node, or the kernel */
    struct send_window window;
    uint64_t since_ns; /* when the oldest chunk that it has not answered was sent */
};

struct transfer {
    struct transfer *next;
    uint64_t blob, size;
    uint64_t had;      /* how many bytes are here, counted from the start */
    uint64_t since_ns; /* when it was first expected */
    int fd;            /* owned */
    bool shared;       /* the kernel has the descriptor, and sends the bytes itself */
    struct receiver *receiver;
};

struct transfer_table {
    struct transfer *first;
};

void transfer_table_release(struct transfer_table *list);
struct transfer *transfer_table_find(const struct transfer_table *list,
                                     uint64_t blob); /* NULL: it is not in the table */
/* Takes fd, also when it fails. NULL: memory is out. */
struct transfer *transfer_table_add(struct transfer_table *list, uint64_t blob, uint64_t size,
                                    uint64_t had, int fd);
void transfer_table_remove(struct transfer_table *list, struct transfer *t);
bool transfer_is_whole(const struct transfer *t);

/* NULL: none; t may be NULL */
struct receiver *receiver_find(const struct transfer *t, uint32_t to);
/* NULL: memory is out */
MUST_USE struct receiver *receiver_add(struct transfer *t, uint32_t to, uint32_t link);
/* If the blob is complete and this was its last receiver, the transfer is removed, too. */
void receiver_remove(struct transfer_table *list, struct transfer *t, struct receiver *r);

#endif
