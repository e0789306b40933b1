/* blob_table.h - the table of blobs: which nodes have each, and which nodes get it, from whom.
 * Pure. */
#ifndef KERNEL_BLOBS_BLOB_TABLE_H
#define KERNEL_BLOBS_BLOB_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One blob on one node. */
struct replica {
    unsigned node;
    bool complete;     /* else the node is still to get it, or a part of it */
    unsigned sender;   /* the node that sends it there */
    bool by_kernel;    /* the bytes pass through the kernel; else over a direct link */
    bool in_stream;    /* receives the shared stream, not a copy of its own */
    bool ready;        /* has answered EXPECT: the sender on a direct link may begin */
    bool started;      /* the sender was told to SHIP it */
    uint64_t received; /* bytes, as far as the node has said */
};

struct blob_entry {
    uint64_t blob, size;
    struct replica *replica; /* in the order of nodes; owned */
    size_t n, room;
    uint64_t stream_received; /* bytes that all receivers of the stream have, as its sender knows */
    bool dropped;             /* nobody will ask for it any more */
};

struct blob_table {
    struct blob_entry *entry; /* in the order of blob numbers; owned */
    size_t n, room;
};

#define BLOB_TABLE_INIT { NULL, 0, 0 }

void blob_table_release(struct blob_table *t);
/* Both: NULL if there is none. Valid until something is added or removed. */
struct blob_entry *blob_table_get(const struct blob_table *t, uint64_t blob);
struct replica *blob_entry_at(const struct blob_entry *e, unsigned node);
/* Both find it, or add it. NULL: memory is out. */
struct blob_entry *blob_table_add(struct blob_table *t, uint64_t blob, uint64_t size);
struct replica *blob_entry_add(struct blob_entry *e, unsigned node);
void blob_table_remove(struct blob_table *t, struct blob_entry *e);
void blob_entry_remove(struct blob_entry *e, struct replica *r);

/* The first complete replica; NULL: no node has the whole blob. */
const struct replica *blob_entry_holder(const struct blob_entry *e);
bool blob_entry_is_moving(const struct blob_entry *e); /* is any replica incomplete? */
/* Bytes that every receiver of the stream has. */
uint64_t blob_entry_least(const struct blob_entry *e);

#endif
