/* SPDX-License-Identifier: BSD-3-Clause */
/* uplink.h - the agent's connection to the kernel: a unix socket on the kernel's machine, and else
 * a ZeroMQ DEALER that dials the kernel or, in a tree, another agent. It reads and writes the
 * envelopes (protocol/README.md), and handles the messages about connections: WELCOME's number,
 * BEAT, OPEN and DIAL. It knows nothing of workers, so simulated agents use it, too. */
#ifndef WORKER_AGENT_NET_UPLINK_H
#define WORKER_AGENT_NET_UPLINK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"
#include "protocol/keys.h"
#include "worker/agent/net/resume.h"

#define UPLINK_ROOM 12u

struct uplink;

struct uplink_handler {
    /* One message for this node: `workers` is *u32, empty: for the agent itself. Both are borrowed
     * for the call. */
    void (*message)(void *arg, struct slice workers, struct slice msg);
    /* A message on the connection for blobs with that node. NULL: not wanted. */
    void (*blobs)(void *arg, uint32_t node, struct slice msg);
    /* A connection for blobs has ended. NULL: not wanted. */
    void (*unlinked)(void *arg, uint32_t node, const char *why);
    /* The kernel was silent for longer than WELCOME's timeout. NULL: not wanted. */
    void (*lost)(void *arg, const char *why);
    void *arg;
    /* There is a new connection to the kernel. Chunks and their answers on the old one may be lost.
     * NULL: not wanted. */
    void (*resumed)(void *arg);
    /* true: so much is kept until the kernel acknowledges it that nothing more should be sent;
     * false: no longer. NULL: not wanted. */
    void (*full)(void *arg, bool full);
};

struct uplink_config {
    const char *endpoint; /* to dial */
    void *socket; /* instead of endpoint: a connected DEALER of `context`; taken, also on failure */
    const struct keys *keys;     /* this agent's, for tcp; copied. NULL: on the kernel's machine,
                                    without CURVE and beats */
    const unsigned char *kernel; /* the kernel's public key, with keys */
    /* a ZeroMQ context, borrowed; NULL: a new one. Agents that are told to OPEN can't share one */
    void *context;
    /* the kernel's endpoints, separated by commas, to dial when the connection has ended; needs
     * keys. NULL: the agent does not resume */
    const char *again;
    /* after so long without an answer to HELLO it is said anew; 0: never */
    uint64_t hello_ns;
    /* counts what a relay receives; borrowed; NULL: there is none */
    const _Atomic uint64_t *relayed;
    struct resume_stuck stuck;
    struct uplink_handler handler;
};

/* NULL: *err says why. */
struct uplink *uplink_open(struct loop *loop, const struct uplink_config *config, struct err *err);
void uplink_close(
    struct uplink *u); /* messages that were sent still leave, for a moment; NULL is fine */

/* Copies msg. worker: the sender, which is written into the message; 0: the agent. Messages of one
 * turn of the loop leave together at its end. Before WELCOME only HELLO leaves. */
MUST_USE int uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err);
/* Sends the agent's own message, which stands behind UPLINK_ROOM unused bytes. Takes msg's bytes,
 * also on failure. A long message is not copied. */
MUST_USE int uplink_give(struct uplink *u, struct buf *msg, struct err *err);
/* The same on the connection for blobs with that node. -1: there is none. */
MUST_USE int uplink_give_peer(struct uplink *u, uint32_t node, struct buf *msg, struct err *err);

/* The key with which the agent will resume, for HELLO; empty: it can't. */
struct slice uplink_next_key(const struct uplink *u);
/* the kernel has answered HELLO, with WELCOME or REFUSE */
bool uplink_is_welcome(const struct uplink *u);
/* its connection has ended or is silent, and it dials the kernel anew */
bool uplink_is_cut_off(const struct uplink *u);
/* true: a silent kernel is not given up at once. The kernel waits for this agent longer than it
 * takes to notice its silence, and the agent waits for the kernel in the same way. */
bool uplink_outlasts(const struct uplink *u);

#endif
