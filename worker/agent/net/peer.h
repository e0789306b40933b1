/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.h - one connection of this agent with another agent, and the list of them. Only peers.c and
 * peer_accept.c use it. */
#ifndef WORKER_AGENT_NET_PEER_H
#define WORKER_AGENT_NET_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop/loop.h"
#include "protocol/keys.h"
#include "protocol/span.h"
#include "worker/agent/net/peers.h"

struct peer_dial;
struct peer_zap;

/* ---- child_nodes.c ---- */
/* Which nodes are below which child of this agent, in the tree of agents. Pure. */

#define CHILD_NODES_NONE 0xffffffffu /* not a node's number */

struct child_nodes {
    uint32_t *child; /* for each node: the child above it, or the node itself if it is a child */
    size_t n;
};

#define CHILD_NODES_INIT { NULL, 0 }

void child_nodes_release(struct child_nodes *t);
/* -1: memory is out, or the node's number is above what nodes may have. */
MUST_USE int child_nodes_put(struct child_nodes *t, uint32_t node, uint32_t child);
uint32_t child_nodes_get(const struct child_nodes *t,
                         uint32_t node);                      /* CHILD_NODES_NONE: below none */
void child_nodes_drop(struct child_nodes *t, uint32_t child); /* also all nodes below it */

/* ---- peer.c ---- */
#define MESSAGES_PER_TURN 32
#define IDENTITY_MAX      32u

enum peer_state { PEER_EXPECTED, PEER_DIALED, PEER_CHILD, PEER_LINKED };

struct peer {
    struct peer *next;
    struct peers *peers;
    enum peer_state state;
    uint32_t node;
    uint64_t role;
    unsigned char key[KEY_SIZE];
    uint8_t id[IDENTITY_MAX]; /* of a peer that dialed us: its identity on the router */
    size_t id_size;
    struct peer_dial *dial; /* while we dial */
    void *socket;           /* of a peer that we dialed; NULL: it dialed us */
    struct watch *watch;
    struct buf route; /* the sections of the message that is being sent to this child */
    bool gone;        /* it is freed at the end of the turn */
};

struct peers {
    struct loop *loop;
    void *context;
    const struct keys *keys;
    struct peers_ops ops;
    uint32_t own; /* this agent's node */
    struct peer *peer;
    struct child_nodes children;
    struct peer_zap *zap;
    void *router; /* NULL until somebody is expected */
    struct watch *watch;
    unsigned port;
    bool stays;      /* it dials no parent */
    bool complained; /* a message that was dropped has been logged */
};

/* NULL: memory is out. */
struct peer *peer_create(struct peers *p, enum peer_state state, uint32_t node,
                         const unsigned char *key);
void peer_destroy(struct peer *one); /* freed when the turn is over */
/* From now on this is the connection on which blobs are sent. The one before stays open for what
 * comes on it, since both sides may have dialed at once. An older one is destroyed. */
void peer_linked(struct peer *one);
struct peer *peer_find(const struct peers *p, enum peer_state state, uint32_t node);
/* The connection has ended by itself: it is destroyed, and the owner is told. */
void peer_ended(struct peer *one, const char *why);
/* One frame; never waits. */
MUST_USE int peer_send(struct peer *one, const void *frame, size_t n, int flags);
MUST_USE int peer_send_frame(struct peer *one, zmq_msg_t *frame); /* The same; takes the frame. */
/* Logs that a message from this node was dropped; only the first one is logged. */
void peer_complain(struct peers *p, uint32_t node, const char *what);

/* ---- peer_accept.c ---- */
/* Agents that dial this one: OPEN lets each in by its key, once. Their bundles and blobs arrive at
 * one router socket. protocol/README.md, OPEN. */

void peer_accept_open(struct peers *p, const struct span *m); /* OPEN */
/* Closes the router. Call it once every peer is destroyed. */
void peer_accept_close(struct peers *p);

/* ---- peer_zap.c ---- */
/* Decides who may connect to this agent: answers ZeroMQ's authentication (ZAP, RFC 27) for one
 * context, from the event loop. */

#define PEER_ZAP_NAME_SIZE 16u

/* May the holder of this public key connect? If so, `name` becomes the connection's User-Id. */
typedef bool (*peer_zap_f)(void *arg, const unsigned char key[KEY_SIZE],
                           char name[static PEER_ZAP_NAME_SIZE]);

/* Call it once for a context, before any socket of it is bound as a CURVE server. NULL: *err says
 * why. */
struct peer_zap *peer_zap_open(struct loop *loop, void *context, peer_zap_f f, void *arg,
                               struct err *err);
/* Also counts connections to this CURVE server that fail before they show a key. The server must
 * live until peer_zap_close(). */
MUST_USE int peer_zap_watch(struct peer_zap *a, void *listener, struct err *err);
void peer_zap_close(struct peer_zap *a); /* logs the counts; NULL is fine */

/* ---- peer_dial.c ---- */
/* Dials another agent: finds the endpoint that answers with CURVE, sends DIAL and waits for its
 * answer. protocol/README.md, DIAL. */

#define PEER_DIAL_LIMIT_NS (10 * NS_PER_S) /* for all of it */

/* Called at the end; the dial is freed after this call. socket: the connection, owned by the callee
 * from now on. NULL: it failed, and `why` says why, with the addresses of both sides. */
typedef void (*peer_dial_f)(void *arg, void *socket, const char *why);

/* dial: the kernel's DIAL. keys: this agent's. own: this node's number. NULL: *err says why. */
struct peer_dial *peer_dial_start(struct loop *loop, void *context, const struct keys *keys,
                                  uint32_t own, const struct span *dial, peer_dial_f f, void *arg,
                                  struct err *err);
void peer_dial_stop(struct peer_dial *c); /* f is not called any more; NULL is fine */

#endif
