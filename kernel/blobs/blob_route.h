/* blob_route.h - by which route a node gets a blob: through the kernel, alone or in one stream with
 * others, or over a direct link from another node. And the messages for that. Private to this
 * folder. */
#ifndef KERNEL_BLOBS_BLOB_ROUTE_H
#define KERNEL_BLOBS_BLOB_ROUTE_H

#include "kernel/blobs/blob_schedule.h"
#include "kernel/blobs/direct_links.h"
#include "kernel/blobs/blob_table.h"

/* As `to`: all receivers of the shared stream. As `from` and as a sender: the kernel. */
#define BLOB_ALL 0xffffffffu

struct blob_schedule {
    struct blob_schedule_ops ops;
    struct blob_table table;
    struct direct_links links;
    unsigned *node; /* receivers of the message that is being sent, with room for n_nodes */
    size_t n_nodes;
    bool busy; /* large blobs are on their way */
};

/* Room for the receivers of one message. Reserve first: what was decided must not fail halfway. */
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

/* Tells the sender to begin, if the direct link is up and the receiver is ready. */
void blob_route_begin(struct blob_schedule *s, const struct blob_entry *e, struct replica *r);
void blob_route_by_kernel(struct blob_schedule *s, const struct blob_entry *e, struct replica *r,
                          unsigned sender);
/* Over a direct link that is up already, else through the kernel. */
void blob_route_any(struct blob_schedule *s, struct blob_entry *e, struct replica *r,
                    unsigned sender);
/* Chooses the routes of the n replicas that are new: told to EXPECT the blob, and without a sender
 * (BLOB_ALL). */
void blob_route_all(struct blob_schedule *s, struct blob_entry *e, size_t n, unsigned sender);

#endif
