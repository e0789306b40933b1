/* peers.h - links between this agent and others: children, which dialed us and whose messages go up
 * and down through us, and links for blobs, which either side dialed. A door: sockets, CURVE, who
 * is let in. protocol/README.md, OPEN and DIAL. */
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
    /* An entry of a child, or of a node under it. */
    void (*entry)(void *arg, struct slice whole);
    /* A bundle in which every entry is good: takes the frame. */
    void (*bundle)(void *arg, zmq_msg_t *frame);
    /* A message on a link for blobs. */
    void (*blobs)(void *arg, uint32_t node, struct slice msg);
    /* A link for blobs has ended. */
    void (*unlinked)(void *arg, uint32_t node, const char *why);
    /* The parent took us: its socket, now the caller's. DIALED is still to be said. */
    void (*parent)(void *arg, uint32_t node, void *socket);
    /* OPENED and DIALED, to the kernel. */
    void (*say)(void *arg, const struct span *m);
    void *arg;
};

/* context and keys (NULL: this agent has none, and no peers) are borrowed. The context is used by
 * one agent alone as soon as that is told to OPEN. */
struct peers *peers_create(struct loop *loop, void *context, const struct keys *keys,
                           const struct peers_ops *ops, struct err *err);
void peers_destroy(struct peers *p); /* NULL is fine */
/* This agent's own number: before anything else is asked. */
void peers_number(struct peers *p, uint32_t node);

/* The kernel's DIAL; OPEN is in peer_accept.h. */
void peers_dial(struct peers *p, const struct span *m);

/* Passes a message down to those children under whom nodes of the route are, with their sections.
 * The section of `own` is left out. What is under nobody is dropped. */
void peers_down(struct peers *p, struct slice route, uint32_t own, zmq_msg_t *msg);
/* On the link for blobs with that node. -1: there is none (any more). Takes
 * the bytes of msg behind the first `skip`, also when it fails. */
MUST_USE int peers_give(struct peers *p, uint32_t node, struct buf *msg, size_t skip,
                        struct err *err);

/* A parent is being dialed: the kernel says nothing meanwhile, for PEER_DIAL_LIMIT_NS at most. */
bool peers_moving(const struct peers *p);

#endif
