/* peer.h - one link of an agent with another, and what peers.c and peer_accept.c share. For these
 * two only. */
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
    uint8_t id[IDENTITY_MAX]; /* on the router, of who dialed us */
    size_t id_size;
    struct peer_dial *dial; /* while we dial */
    void *socket;           /* that we dialed; NULL: it dialed us */
    struct watch *watch;
    struct buf route; /* what is being sent down */
    bool gone;        /* freed when the turn is over */
};

struct peers {
    struct loop *loop;
    void *context;
    const struct keys *keys;
    struct peers_ops ops;
    uint32_t own;
    struct peer *peer;
    struct child_nodes children;
    struct peer_zap *zap;
    void *router; /* NULL until somebody is expected */
    struct watch *watch;
    unsigned port;
    bool complained; /* about strange messages: once */
};

/* ---- peers.c ---- */

/* NULL: memory is out. */
struct peer *peer_create(struct peers *p, enum peer_state state, uint32_t node,
                         const unsigned char *key);
void peer_destroy(struct peer *one); /* freed when the turn is over */
struct peer *peer_find(const struct peers *p, enum peer_state state, uint32_t node);
/* The connection has ended by itself: it is destroyed, and the owner is told. */
void peer_ended(struct peer *one, const char *why);
/* One frame; never waits. */
MUST_USE int peer_send(struct peer *one, const void *frame, size_t n, int flags);
void peers_complain(struct peers *p, uint32_t node, const char *what);

/* ---- peer_accept.c ---- */

void peer_accept_close(struct peers *p);

#endif
