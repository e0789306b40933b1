/* SPDX-License-Identifier: BSD-3-Clause */
/* node_link.h - the connection to a node's agent: on which socket it is reached, directly or
 * through other agents, and which messages wait until it can be reached. Pure. */
#ifndef KERNEL_AGENTS_NODE_LINK_H
#define KERNEL_AGENTS_NODE_LINK_H

#include <zmq.h>

#include "base/beat.h"
#include "base/meter.h"
#include "kernel/agents/node.h"
#include "protocol/keys.h"
#include "protocol/route.h"
#include "protocol/session.h"

#define IDENTITY_MAX 32u /* agents set no identity, so ZeroMQ gives each one of 5 bytes */

struct router;

/* One message for one node: an item of its session, or one that can't be sent yet. */
struct waiting_message {
    struct waiting_message *next; /* in the list of those that wait */
    struct buf route;
    zmq_msg_t body;
};

/* The steps in which a node moves from its own connection to a parent: see to_agents.h. */
enum tree_move_state {
    TREE_MOVE_NONE,
    TREE_MOVE_WAITS,   /* the parent is not up yet */
    TREE_MOVE_OPENING, /* the parent was told to OPEN a port */
    TREE_MOVE_DIALING, /* the node was told to DIAL it; nothing is sent to the node until it has */
    TREE_MOVE_DONE     /* all messages go through the parent */
};

/* fan.c's part of a link: what one message adds for this node, and for its connection. */
struct fan_part {
    uint32_t *worker; /* the message's receivers on this node; owned */
    size_t n, room;
    struct buf route; /* of the message on this connection */
    bool has_node, has_route;
    bool handed; /* the message was taken from the session, to be sent now */
};

struct node_link {
    struct node node; /* its texts are owned by the link */
    bool named;       /* by its engine: the user knows that name */
    /* the nodes of its engine, with this one; 0: it came in place of one, and is not in their tree
     */
    unsigned siblings;
    /* the connection */
    struct router *router; /* the socket on which its HELLO came; NULL: nothing came yet */
    unsigned char identity[IDENTITY_MAX];
    size_t identity_size;
    int fd;                      /* tells which connection has ended; -1: not known */
    struct meter meter;          /* counts the bytes that come on fd */
    unsigned char key[KEY_SIZE]; /* its public key; zeros: none */
    struct peer_times times;
    /* Its connection has ended, and the node is lost at this time. Until then its engine may say
     * why, and its agent may resume. 0: its connection has not ended. */
    uint64_t lost_at_ns;
    uint64_t ended_ns; /* when that wait began */
    /* the session; not for this machine's agent */
    struct session session;       /* of messages that have a number */
    bool resumes;                 /* its agent can */
    bool cut;                     /* the connection has ended; what is for it waits for RESUME */
    unsigned char next[KEY_SIZE]; /* the only key with which it can; zeros: none */
    /* the way */
    enum tree_move_state move;
    struct node_link *parent; /* from TREE_MOVE_DIALING on */
    /* It was told to DIAL this node before its connection ended: a DIALED that comes later is
     * ignored. ROUTE_KERNEL: none. */
    unsigned voided_parent;
    struct waiting_message *first, **last;
    struct fan_part fan;
    bool engine_tells; /* when agents end: nobody else need guess it from their silence */
    bool agent_ends;   /* it has said so: it won't resume */
    bool engine_ended; /* while the node was up */
    bool way_lost;     /* the engine has lost its way to the node; until the agent resumes */
    const char *engine_report; /* why; borrowed; NULL: it did not say */
    char *notice;       /* of its engine, before the node was up: its text; owned; NULL: none */
    uint64_t leaves_ns; /* when it will be gone, if there is one */
    bool removed;       /* its engine was stopped: an agent that connects as this node is ignored */
    bool refused;       /* its agent was told that the kernel does not take it (back) */
    bool lost_with_parent; /* scratch flag of node_failures_lose() */
};

/* NULL: memory is out. Its place among its engine's nodes is `index`. */
struct node_link *node_link_create(unsigned number, unsigned engine, unsigned index);
void node_link_free(struct node_link *link); /* NULL is fine */

/* The text is copied. */
MUST_USE int node_link_set_name(struct node_link *link, struct slice name);
/* The list in HELLO, "IFNAME=IP,…"; the first IP becomes the node's address. */
MUST_USE int node_link_set_addresses(struct node_link *link, struct slice list);
/* The node is lost: messages that wait for it are dropped. */
void node_link_lost(struct node_link *link);

/* Can a message for the node be sent now? */
bool node_link_is_ready(const struct node_link *link);
/* The node through whose connection this one is reached: itself, or the topmost of its parents. */
struct node_link *node_link_top(struct node_link *link);
/* Is it the same node as top, or reached through it? */
bool node_link_is_under(const struct node_link *link, const struct node_link *top);
/* The time up to which silence can be judged: `now`; for a node reached through others, the time at
 * which the quietest of those was last heard, since later messages may still be on the way through
 * them. */
uint64_t node_link_known_ns(const struct node_link *link, uint64_t now);
/* Keeps a message with a number in the node's session; the body is copied by reference. */
MUST_USE int node_link_keep(struct node_link *link, const uint32_t *workers, size_t n,
                            zmq_msg_t *body);
/* The next message of the session, borrowed, if the node can be reached and one is left; else NULL.
 */
struct waiting_message *node_link_next(struct node_link *link);
/* Its connection has ended, or that of a node through which it is reached. */
void node_link_cut(struct node_link *link);
/* Keeps a message without a number until the node can be reached; the body is copied by
 * reference. */
MUST_USE int node_link_wait(struct node_link *link, const uint32_t *workers, size_t n,
                            zmq_msg_t *body);
/* The first message that waits, or NULL. The caller frees it with waiting_message_free(). */
struct waiting_message *node_link_take(struct node_link *link);
void waiting_message_free(struct waiting_message *message); /* NULL is fine */

/* ---- node_table.c ---- */
/* All nodes by number, and on which node each worker is. Nodes are freed only with the table: a
 * pointer to one stays valid. Pure. */

struct node_table {
    struct node_link **link; /* by the node's number */
    size_t n;
    uint16_t *home; /* the node of each worker, by the worker's number */
    size_t n_homes;
};

#define NODE_TABLE_INIT { NULL, 0, NULL, 0 }
#define NODE_NOWHERE    0xffffu /* the node of a worker that is gone */

void node_table_release(struct node_table *t);
/* Adds n nodes of an engine. -1: memory is out, or there are no numbers left; none was added. */
MUST_USE int node_table_add(struct node_table *t, unsigned n, unsigned engine, struct err *err);
/* NULL: there was never such a node. */
struct node_link *node_table_get(const struct node_table *t, unsigned number);

/* A worker is on NODE_HERE until it is placed or forgotten. */
MUST_USE int node_table_place(struct node_table *t, uint32_t worker, unsigned node,
                              struct err *err);
unsigned node_table_where(const struct node_table *t, uint32_t worker);
void node_table_forget(struct node_table *t, uint32_t worker);

#endif
