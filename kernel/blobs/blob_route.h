/* blob_route.h - by which route a blob gets to a node that expects it: by way of the kernel, alone
 * or with others, or over a link from another node. Private to this folder. */
#ifndef KERNEL_BLOBS_BLOB_ROUTE_H
#define KERNEL_BLOBS_BLOB_ROUTE_H

#include "kernel/blobs/blob_schedule.h"
#include "kernel/blobs/direct_links.h"
#include "kernel/blobs/blob_table.h"

/* `to`: every replica of the stream for many; `from`: by way of the kernel */
#define BLOB_ALL 0xffffffffu

struct blob_schedule {
    struct blob_schedule_ops ops;
    struct blob_table table;
    struct direct_links links;
    unsigned *node; /* of the message that is being sent; n_nodes of them fit */
    size_t n_nodes;
    bool busy; /* large blobs move */
};

/* Room for the nodes of one message, so that what has been decided can't fail in the middle. */
MUST_USE int blob_schedule_reserve(struct blob_schedule *s, size_t n, struct err *err);

/* ---- what is sent ---- */

void blob_send_to(struct blob_schedule *s, unsigned node, const struct span *m);
void blob_send_expect(struct blob_schedule *s, const struct blob_entry *e, const unsigned *nodes,
                      size_t n, unsigned from);
void blob_send_ship(struct blob_schedule *s, const struct blob_entry *e, unsigned sender,
                    unsigned to, bool through);
void blob_send_taken(struct blob_schedule *s, const struct blob_entry *e, unsigned sender,
                     unsigned to, uint64_t bytes);
void blob_send_drop(struct blob_schedule *s, uint64_t blob, const unsigned *nodes, size_t n);

/* ---- routes ---- */

/* Its sender begins, when the link between the two is there and it is ready; else nothing happens
 * yet. */
void blob_route_begin(struct blob_schedule *s, const struct blob_entry *e, struct replica *r);
void blob_route_by_kernel(struct blob_schedule *s, const struct blob_entry *e, struct replica *r,
                          unsigned sender);
/* Over a link that is there already, else by way of the kernel. */
void blob_route_any(struct blob_schedule *s, struct blob_entry *e, struct replica *r,
                    unsigned sender);
/* To the n replicas that expect it and have no sender (BLOB_ALL) yet: they have been told to EXPECT
 * it. */
void blob_route_all(struct blob_schedule *s, struct blob_entry *e, size_t n, unsigned sender);

#endif
