/* SPDX-License-Identifier: BSD-3-Clause */
/* blob_route.h - by which route a node gets a blob: through the kernel, alone or in one stream with
 * others, or over a direct link from another node; and builds the messages for it. Private to this
 * folder. */
#ifndef KERNEL_BLOBS_BLOB_ROUTE_H
#define KERNEL_BLOBS_BLOB_ROUTE_H

#include "kernel/blobs/blob_schedule.h"
#include "kernel/blobs/direct_links.h"

/* ---- blob_table.c ---- */
/* The table of blobs: which nodes have each, and which nodes get it, from whom. Pure. */

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
void blob_send_ack(struct blob_schedule *s, const struct blob_entry *e, unsigned sender,
                   unsigned to, uint64_t bytes);
void blob_send_drop(struct blob_schedule *s, uint64_t blob, const unsigned *nodes, size_t n);

/* ---- routes ---- */

/* A link that has failed is tried anew; blobs take it once it is up. */
void blob_link_anew(struct blob_schedule *s, struct direct_link *link);
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
