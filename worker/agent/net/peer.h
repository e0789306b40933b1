/* peer.h - one connection of this agent with another agent, and the list of them. Only peers.c and
 * peer_accept.c use it. */
#ifndef WORKER_AGENT_NET_PEER_H
#define WORKER_AGENT_NET_PEER_H

#include "base/buf.h"
#include "worker/agent/net/peer_zap.h"
#include "worker/agent/net/peer_dial.h"
#include "worker/agent/net/peers.h"
#include "worker/agent/net/child_nodes.h"

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
    bool complained; /* a message that was dropped has been logged */
};

/* NULL: memory is out. */
struct peer *peer_create(struct peers *p, enum peer_state state, uint32_t node,
                         const unsigned char *key);
void peer_destroy(struct peer *one); /* freed when the turn is over */
struct peer *peer_find(const struct peers *p, enum peer_state state, uint32_t node);
/* The connection has ended by itself: it is destroyed, and the owner is told. */
void peer_ended(struct peer *one, const char *why);
/* One frame; never waits. */
MUST_USE int peer_send(struct peer *one, const void *frame, size_t n, int flags);
/* The same; takes the frame. */
MUST_USE int peer_send_frame(struct peer *one, zmq_msg_t *frame);
/* Logs that a message from this node was dropped; only the first one is logged. */
void peer_complain(struct peers *p, uint32_t node, const char *what);

#endif
