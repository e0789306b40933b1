/* peer.h - one link of an agent with another, and what peers.c and callers.c share. For these two
 * only. */
#ifndef WORKER_AGENT_PEER_H
#define WORKER_AGENT_PEER_H

#include "base/buf.h"
#include "worker/agent/admit.h"
#include "worker/agent/call.h"
#include "worker/agent/peers.h"
#include "worker/agent/tree.h"

#define MESSAGES_PER_TURN 32
#define IDENTITY_MAX      32u

enum peer_state { PEER_EXPECTED, PEER_CALLED, PEER_CHILD, PEER_LINKED };

struct peer {
    struct peer *next;
    struct peers *peers;
    enum peer_state state;
    uint32_t node;
    uint64_t role;
    unsigned char key[KEY_SIZE];
    uint8_t id[IDENTITY_MAX]; /* on the router, of who dialed us */
    size_t id_size;
    struct call *call; /* while we dial */
    void *socket;      /* that we dialed; NULL: it dialed us */
    struct watch *watch;
    struct buf route; /* what is being sent down */
    bool gone;        /* freed when the turn is over */
};

struct peers {
    struct loop *loop;
    void *context;
    const struct keys *keys;
    struct peers_doors doors;
    uint32_t own;
    struct peer *peer;
    struct tree tree;
    struct admit *admit;
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

/* ---- callers.c ---- */

void callers_close(struct peers *p);

#endif
