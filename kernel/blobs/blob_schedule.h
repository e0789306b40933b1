/* blob_schedule.h - which nodes have which blob, and how it gets to those that need it: from its
 * holder by way of the kernel, or, when it is large and several need it, along a chain of nodes,
 * each of which passes on what comes while it comes. Pure: what is to be sent goes out through
 * blob_schedule_ops. protocol/README.md, "Blobs between nodes", has the messages. */
#ifndef KERNEL_BLOBS_BLOB_SCHEDULE_H
#define KERNEL_BLOBS_BLOB_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/span.h"

/* bytes; smaller blobs are not worth a link between nodes: K hands them to all */
#define BLOB_CHAIN_SIZE (UINT64_C(1) << 20)

struct blob_schedule;

/* How other nodes reach a node's agent. */
struct blob_peer {
    /* as in its HELLO: "eth0=10.0.0.1,ib0=10.1.0.1"; borrowed until the schedule is called again */
    const char *addresses;
    const unsigned char *key; /* its public key, 32 bytes; borrowed likewise */
};

/* None of them may call the schedule back; what can't be sent is theirs to log (its node's loss is
 * told by blob_schedule_lost, and that memory is out by blob_schedule_stop). */
struct blob_schedule_ops {
    /* m to the agents of these nodes, as one message: m.worker is 0. Copies m. */
    void (*send)(void *arg, const unsigned *nodes, size_t n, const struct span *m);
    /* false: no agent can dial that node, or be dialed by it (NODE_HERE has no CURVE socket). */
    bool (*peer)(void *arg, unsigned node, struct blob_peer *out);
    /* Large blobs begin to pass through the kernel, or have all passed. NULL: not wanted. */
    void (*busy)(void *arg, bool on);
    void *arg;
};

struct blob_schedule *blob_schedule_create(const struct blob_schedule_ops *ops,
                                           struct err *err); /* ops are copied */
/* NULL is fine; nothing is sent */
void blob_schedule_destroy(struct blob_schedule *s);

/* A message from a worker brought it (blob and blob_size not 0): before the message is passed on to
 * anybody. */
MUST_USE int blob_schedule_arrived(struct blob_schedule *s, uint64_t blob, uint64_t size,
                                   unsigned node, struct err *err);
/* Call it before a message that carries the blob (blob_size not 0) goes to the agents of these
 * nodes, none of which is lost: those that lack it are told to EXPECT it, and it is on its way. One
 * that nobody has any more is not sent: its messages arrive without. */
MUST_USE int blob_schedule_need(struct blob_schedule *s, uint64_t blob, uint64_t size,
                                const unsigned *nodes, size_t n, struct err *err);
/* Is m, from a node's agent, about blobs? OPENED, DIALED with a node that was told to DIAL, TAKEN,
 * HELD, CHUNK: true, and it is dealt with. (DIALED for role 0, agents of agents, is false.) */
bool blob_schedule_message(struct blob_schedule *s, unsigned node, const struct span *m);
/* Nobody will ask for it any more: DROP goes to all that have it, once those that expect it have it
 * as well. */
void blob_schedule_drop(struct blob_schedule *s, uint64_t blob);
/* Nor does anybody wait for it: DROP goes to all at once, and who expects it is told so that it
 * won't come. */
void blob_schedule_cancel(struct blob_schedule *s, uint64_t blob);
/* The node is gone, and what it had. Others that waited for it get it from elsewhere, or are told
 * that it won't come. */
void blob_schedule_lost(struct blob_schedule *s, unsigned node);

/* A message about a blob could not be made: whoever waits for one is told that it won't come, lest
 * it wait for ever. Not from within a door. */
void blob_schedule_stop(struct blob_schedule *s);

/* Bytes of large blobs that are on their way to that node; 0: none is. *had: how many of them are
 * there already, as far as is known; UINT64_MAX: it is not. Of a chain only the first node says so,
 * and the others are close behind. */
uint64_t blob_schedule_expected(const struct blob_schedule *s, unsigned node, uint64_t *had);

#endif
