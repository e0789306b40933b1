/* SPDX-License-Identifier: BSD-3-Clause */
/* peers.h - connections with other agents. A child has dialed this agent, and its messages from and
 * to the kernel pass through it. A connection for blobs may have been dialed by either side.
 * protocol/README.md, OPEN and DIAL. */
#ifndef WORKER_AGENT_NET_PEERS_H
#define WORKER_AGENT_NET_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <zmq.h>

#include "base/loop/loop.h"
#include "protocol/keys.h"
#include "protocol/span.h"
#include "protocol/span_flags.h"

struct peers;

struct peers_ops {
    void (*entry)(void *arg, struct slice whole); /* An entry of a child, or of a node below it. */
    /* A bundle whose entries are all good. Takes the frame. */
    void (*bundle)(void *arg, zmq_msg_t *frame);
    /* A message on a connection for blobs. */
    void (*blobs)(void *arg, uint32_t node, struct slice msg);
    /* A connection for blobs has ended. */
    void (*unlinked)(void *arg, uint32_t node, const char *why);
    /* A parent was dialed: `socket` leads to it and is owned by the callee. DIALED has not been
     * sent yet. */
    void (*parent)(void *arg, uint32_t node, void *socket);
    /* OPENED or DIALED is to be sent to the kernel. */
    void (*say)(void *arg, const struct span *m);
    void *arg;
};

/* context and keys are borrowed. keys NULL: this agent has none, and so no peers. Only one agent
 * may use a context once it is told to OPEN. */
struct peers *peers_create(struct loop *loop, void *context, const struct keys *keys,
                           const struct peers_ops *ops, struct err *err);
void peers_destroy(struct peers *p); /* NULL is fine */
/* This agent's own number. Call it before anything else. */
void peers_number(struct peers *p, uint32_t node);

/* The kernel's DIAL; OPEN is in peer_accept.c. */
void peers_dial(struct peers *p, const struct span *m);

/* Passes a message to the children above the nodes of the route, each with its sections of the
 * route. The section of `own` is left out. Sections of nodes below no child are dropped. */
void peers_down(struct peers *p, struct slice route, uint32_t own, zmq_msg_t *msg);
/* Sends on the connection for blobs with that node. -1: there is none (any more). Takes msg's
 * bytes, and leaves out the first `skip`, also on failure. */
MUST_USE int peers_give(struct peers *p, uint32_t node, struct buf *msg, size_t skip,
                        struct err *err);

/* The connection to the kernel has ended: a parent is not dialed any more, and the children, whose
 * messages would be lost, are told to resume by themselves. out: nothing came any more on it. */
void peers_cut(struct peers *p, bool out);
/* This agent stays on its own connection: it dials no parent. */
void peers_stay(struct peers *p);

/* A parent is being dialed. Meanwhile the kernel sends nothing, for at most PEER_DIAL_LIMIT_NS. */
bool peers_moving(const struct peers *p);

#endif
