/* SPDX-License-Identifier: BSD-3-Clause */
/* blob_schedule.h - decides how blobs get to the nodes that need them: from a node that has the
 * blob, through the kernel; or, if it is large and several nodes need it, along a chain of nodes,
 * each of which passes on what it receives. Nodes that need it later are added to the chain.
 * Pure: messages leave through blob_schedule_ops.
 * protocol/README.md, "Blobs between nodes", has the messages. */
#ifndef KERNEL_BLOBS_BLOB_SCHEDULE_H
#define KERNEL_BLOBS_BLOB_SCHEDULE_H

#include "base/clock.h"
#include "protocol/span.h"

/* bytes; for smaller blobs direct links between nodes are not worth it */
#define BLOB_CHAIN_SIZE (UINT64_C(1) << 20)

struct blob_schedule;

/* How other nodes reach the agent of a node. */
struct blob_peer {
    /* as in its HELLO, "eth0=10.0.0.1,ib0=10.1.0.1"; borrowed until the schedule is called */
    const char *addresses;
    const unsigned char *key; /* its public key, 32 bytes; borrowed likewise */
};

/* These may not call the schedule. They log what can't be sent: the schedule is told by
 * blob_schedule_lost() that a node is lost, and by blob_schedule_stop() that memory is out. */
struct blob_schedule_ops {
    /* Sends m to the agents of these nodes, as one message; m.worker is 0. Copies m. */
    void (*send)(void *arg, const unsigned *nodes, size_t n, const struct span *m);
    /* false: no agent can dial that node, or be dialed by it (NODE_HERE has no CURVE socket). */
    bool (*peer)(void *arg, unsigned node, struct blob_peer *out);
    /* true: large blobs begin to pass through the kernel. false: all have passed. May be NULL. */
    void (*busy)(void *arg, bool on);
    const struct clock *clock; /* borrowed */
    void *arg;
};

struct blob_schedule *blob_schedule_create(const struct blob_schedule_ops *ops,
                                           struct err *err); /* ops are copied */
void blob_schedule_destroy(struct blob_schedule *s);         /* NULL is fine. Sends nothing. */

/* A message from a worker brought the blob (blob and blob_size are not 0). Call it before the
 * message is passed on. */
MUST_USE int blob_schedule_arrived(struct blob_schedule *s, uint64_t blob, uint64_t size,
                                   unsigned node, struct err *err);
/* Call it before a message that carries the blob (blob_size is not 0) goes to the agents of these
 * nodes. Nodes that lack the blob are told to EXPECT it, and get it. None of the nodes may be
 * lost. If no node has the blob any more, it is not sent: the message arrives without it. */
MUST_USE int blob_schedule_need(struct blob_schedule *s, uint64_t blob, uint64_t size,
                                const unsigned *nodes, size_t n, struct err *err);
/* Takes a message of a node's agent. false: it is not about blobs. (DIALED can also be the answer
 * of a node that dials its parent.) */
bool blob_schedule_message(struct blob_schedule *s, unsigned node, const struct span *m);
/* Nobody will ask for the blob any more: all nodes that have it get DROP, as soon as all nodes
 * that expect it have it. */
void blob_schedule_drop(struct blob_schedule *s, uint64_t blob);
/* Nobody waits for the blob either: all nodes get DROP at once. Nodes that expect it learn from
 * that that it won't come. */
void blob_schedule_cancel(struct blob_schedule *s, uint64_t blob);
/* The node's connection is a new one, so chunks and answers on the old one may be lost: they are
 * sent again. What broke it may have broken links to other nodes, too: those are tried anew. */
void blob_schedule_resumed(struct blob_schedule *s, unsigned node);
/* The node is lost, and all that it had. Nodes that waited for its blobs get them from other
 * nodes, or learn that they won't come. */
void blob_schedule_lost(struct blob_schedule *s, unsigned node);

/* A message about a blob could not be encoded. Nodes that wait for a blob learn that it won't
 * come; otherwise they could wait for ever. Not to be called from one of the ops. */
void blob_schedule_stop(struct blob_schedule *s);

/* Bytes of large blobs that are on their way to that node; 0: there are none. *had: how many of
 * them have arrived, as far as the kernel knows; UINT64_MAX: it does not know. In a chain only
 * the first node reports; the others are close behind it. *whole: bytes of those that have arrived
 * whole, and are still on their way to other nodes. */
uint64_t blob_schedule_expected(const struct blob_schedule *s, unsigned node, uint64_t *had,
                                uint64_t *whole);

#endif
