/* blob_table.h - the table of blobs: on which nodes each is, and on which it is expected, from
 * whom. Pure. */
#ifndef KERNEL_BLOBS_BLOB_TABLE_H
#define KERNEL_BLOBS_BLOB_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* One node's part in one blob. */
struct replica {
    unsigned node;
    bool has;        /* all of it; else it is expected there */
    unsigned sender; /* who sends it there */
    bool through;    /* by way of the kernel; else over a link between the two */
    bool many;       /* it gets the stream that is for all such replicas */
    bool ready;      /* it has answered EXPECT: a link's sender may begin */
    bool shipped;    /* the sender was told to */
    uint64_t had;    /* bytes, as far as it has said */
};

struct blob_entry {
    uint64_t blob, size;
    struct replica *replica; /* in the order of nodes; owned */
    size_t n, room;
    uint64_t passed; /* of the stream for many: what its sender knows that all have */
    bool dropped;    /* nobody will ask for it any more */
};

struct blob_table {
    struct blob_entry *entry; /* in the order of numbers; owned */
    size_t n, room;
};

#define BLOB_TABLE_INIT { NULL, 0, 0 }

void blob_table_release(struct blob_table *t);
/* Both: NULL when there is none. Valid until something is added or removed. */
struct blob_entry *blob_table_get(const struct blob_table *t, uint64_t blob);
struct replica *blob_entry_at(const struct blob_entry *e, unsigned node);
/* Finds it, or adds it. NULL: memory is out. */
struct blob_entry *blob_table_add(struct blob_table *t, uint64_t blob, uint64_t size);
struct replica *blob_entry_add(struct blob_entry *e, unsigned node);
void blob_table_remove(struct blob_table *t, struct blob_entry *e);
void blob_entry_remove(struct blob_entry *e, struct replica *p);

/* A node that has all of it; the first. NULL: nobody has. */
const struct replica *blob_entry_holder(const struct blob_entry *e);
bool blob_entry_is_moving(const struct blob_entry *e); /* is it expected anywhere? */
/* Bytes that every node of the stream for many has. */
uint64_t blob_entry_least(const struct blob_entry *e);

#endif
