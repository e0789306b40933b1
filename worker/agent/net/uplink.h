/* uplink.h - the agent's line to the kernel: a ZeroMQ DEALER, which dials the kernel or, in a tree,
 * another agent; the envelopes on it (protocol/README.md); and what of the kernel's messages
 * concerns lines alone: WELCOME's number, BEAT, OPEN, DIAL. It knows nothing of workers, so that
 * whoever plays an agent can use it. */
#ifndef WORKER_AGENT_NET_UPLINK_H
#define WORKER_AGENT_NET_UPLINK_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"
#include "protocol/keys.h"

#define UPLINK_ROOM 12u

struct uplink;

struct uplink_handler {
    /* One message for this node: `workers` is *u32, empty: for the agent itself. Both are borrowed
     * for the call. */
    void (*message)(void *arg, struct slice workers, struct slice msg);
    /* A message on the link for blobs with that node. NULL: not wanted. */
    void (*blobs)(void *arg, uint32_t node, struct slice msg);
    /* A link for blobs has ended. NULL: not wanted. */
    void (*unlinked)(void *arg, uint32_t node, const char *why);
    /* Nothing was heard from the kernel for the time that WELCOME said. NULL: not wanted. */
    void (*lost)(void *arg, const char *why);
    void *arg;
};

struct uplink_config {
    const char *endpoint; /* to dial */
    /* instead: a DEALER that has been connected already, of `context`; taken, also on failure */
    void *socket;
    /* ours, for tcp; NULL: ipc, where there are neither CURVE nor beats. Copied */
    const struct keys *keys;
    const unsigned char *kernel; /* the kernel's public key, with keys */
    /* a ZeroMQ context, borrowed; NULL: one of its own. Agents that are told to OPEN can't share
     * one */
    void *context;
    struct uplink_handler handler;
};

/* NULL: *err says why. */
struct uplink *uplink_open(struct loop *loop, const struct uplink_config *config, struct err *err);
void uplink_close(struct uplink *u); /* what was sent still leaves, for a moment; NULL is fine */

/* Copies msg. worker: who it is from; 0: the agent. It is stamped into the message, whatever stood
 * there. All that is sent in one turn of the loop leaves together at its end; before WELCOME only
 * HELLO leaves. */
MUST_USE int uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err);
/* The agent's own message, behind UPLINK_ROOM bytes of which nothing is wanted; takes msg's bytes,
 * also when it fails. A long one is not copied. */
MUST_USE int uplink_give(struct uplink *u, struct buf *msg, struct err *err);
/* The same on the link for blobs with that node. -1: there is none. */
MUST_USE int uplink_give_peer(struct uplink *u, uint32_t node, struct buf *msg, struct err *err);

/* the kernel has answered HELLO, with WELCOME or REFUSE */
bool uplink_is_welcome(const struct uplink *u);

#endif
