/* transfer_table.h - the blobs that move: into this node, out of it, or both at once, and who gets
 * them from here. Pure but for the descriptors that it closes. What is whole and has no receiver
 * left is no transfer any more. */
#ifndef WORKER_AGENT_BLOBS_TRANSFER_TABLE_H
#define WORKER_AGENT_BLOBS_TRANSFER_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/pace.h"

/* Somebody who gets it from here. */
struct receiver {
    struct receiver *next;
    uint32_t to;   /* its number in CHUNK and TAKEN */
    uint32_t link; /* by which it gets it: a peer's node, or the kernel */
    struct pace pace;
    uint64_t since_ns; /* since when it owes an answer */
};

struct transfer {
    struct transfer *next;
    uint64_t blob, size;
    uint64_t had;      /* bytes that are here, from the start */
    uint64_t since_ns; /* since when the rest is expected */
    int fd;            /* owned */
    bool shared;       /* the kernel reads it, and gives it, by itself */
    struct receiver *receiver;
};

struct transfer_table {
    struct transfer *first;
};

#define TRANSFER_TABLE_INIT { NULL }

void transfer_table_release(struct transfer_table *list);
struct transfer *transfer_table_find(const struct transfer_table *list,
                                     uint64_t blob); /* NULL: it does not move */
/* Takes fd, also when it fails. NULL: memory is out. */
struct transfer *transfer_table_add(struct transfer_table *list, uint64_t blob, uint64_t size,
                                    uint64_t had, int fd);
void transfer_table_remove(struct transfer_table *list, struct transfer *t);
bool transfer_is_whole(const struct transfer *t);

/* NULL: none; t may be NULL */
struct receiver *receiver_find(const struct transfer *t, uint32_t to);
/* NULL: memory is out */
MUST_USE struct receiver *receiver_add(struct transfer *t, uint32_t to, uint32_t link);
/* With the last receiver of a whole blob the transfer goes, too. */
void receiver_remove(struct transfer_table *list, struct transfer *t, struct receiver *r);

#endif
