/* node_link.h - what the kernel knows of each node: who it is, by which way it is reached, and what
 * waits until it can be. Nodes are never freed before the table: who holds a pointer to one may go
 * on reading it. Pure. */
#ifndef KERNEL_AGENTS_NODE_LINK_H
#define KERNEL_AGENTS_NODE_LINK_H

#include <stdbool.h>
#include <zmq.h>

#include "base/buf.h"
#include "base/meter.h"
#include "kernel/agents/beat.h"
#include "kernel/agents/node.h"
#include "protocol/keys.h"
#include "protocol/route.h"

#define IDENTITY_MAX 32u /* ZeroMQ makes up 5 bytes; agents don't name themselves */

struct router;

/* One message for one node that can't take it yet. */
struct waiting_message {
    struct waiting_message *next;
    struct buf route;
    zmq_msg_t body;
};

/* On its way to a parent: waits for the parent to be there; the parent opens; it dials, and nothing
 * is sent to it; done. */
enum reparent_state {
    REPARENT_NONE,
    REPARENT_WAITS,
    REPARENT_OPENING,
    REPARENT_DIALING,
    REPARENT_DONE
};

struct node {
    unsigned number;
    struct node_info info; /* its texts are the link's own */
    char *name, *address, *addresses;
    bool named;            /* by its engine: so the user knows it */
    struct router *router; /* the socket that it came by; NULL: nothing came yet */
    unsigned char identity[IDENTITY_MAX];
    size_t identity_size;
    /* of its connection, to recognise it when it ends; -1: not known */
    int fd;
    struct meter meter;          /* what comes on that; sees by itself when it ends */
    unsigned char key[KEY_SIZE]; /* its public key; zeros: none */
    /* by way of whom it is reached, from REPARENT_DONE on; while it dials, by whom it is to be */
    struct node *parent;
    enum reparent_state reparent;
    struct pulse pulse;
    /* its connection has ended, and until then its engine may say why; 0: no */
    uint64_t doomed_ns;
    struct waiting_message *first, **last; /* what waits */
    uint32_t *worker;                      /* of the message that is being sent: fan.c's */
    size_t n_workers, room;
    struct buf route;
    bool told;                   /* that it is not taken back */
    bool touched, topped, going; /* marks, of whoever walks over them */
};

struct node_table {
    struct node **node; /* by number */
    size_t n;
    uint16_t *home; /* the node of each worker, by its number */
    size_t n_homes;
};

#define NODE_TABLE_INIT { NULL, 0, NULL, 0 }
#define NODE_NOWHERE    0xffffu /* the node of a worker that is gone */

void node_table_release(struct node_table *t);
/* Adds n nodes of a run. -1: memory is out, or there are no numbers left; none was added then. */
MUST_USE int node_table_add(struct node_table *t, unsigned n, unsigned engine, struct err *err);
/* NULL: there was never such a node */
struct node *node_table_get(const struct node_table *t, unsigned number);

/* Where a worker is: NODE_HERE unless it was placed or forgotten. */
MUST_USE int node_table_place(struct node_table *t, uint32_t worker, unsigned node,
                              struct err *err);
unsigned node_table_where(const struct node_table *t, uint32_t worker);
void node_table_forget(struct node_table *t, uint32_t worker);

/* The texts are copied. */
MUST_USE int node_set_name(struct node *l, struct slice name);
/* HELLO's list, "IFNAME=IP,…"; the first IP becomes the node's address. */
MUST_USE int node_set_addresses(struct node *l, struct slice list);
void node_lost(struct node *l); /* nothing reaches it any more, and nothing waits */

/* Can a message for it leave now? */
bool node_is_ready(const struct node *l);
/* The node with a connection of its own on the way to this one. */
struct node *node_top(struct node *l);
bool node_is_under(const struct node *l, const struct node *top); /* or the same */
/* Until when it is known whether it spoke: now; or, where it is reached by way of others, when the
 * most silent of them did. */
uint64_t node_known_ns(const struct node *l, uint64_t now);
/* Keeps it for later; the body is copied by reference. */
MUST_USE int node_wait(struct node *l, const uint32_t *workers, size_t n, zmq_msg_t *body);
/* The first that waits, or NULL. The caller's, to be given to waiting_message_free(). */
struct waiting_message *node_take(struct node *l);
void waiting_message_free(struct waiting_message *letter); /* NULL is fine */

#endif
