/* SPDX-License-Identifier: BSD-3-Clause */
/* to_agents.h - sends messages to agents. A message is encoded once, and sent once on each
 * connection. What is for a node that can't be reached yet waits. */
#ifndef KERNEL_AGENTS_TO_AGENTS_H
#define KERNEL_AGENTS_TO_AGENTS_H

#include "kernel/agents/node_link.h"
#include "protocol/span.h"

/* ---- fan.c ---- */
/* Finds the connections for a message: from the list of its receivers to one route for each
 * connection. Pure. */

struct fan {
    struct node_table *nodes;   /* borrowed */
    struct node_link **touched; /* its nodes; owned, with room for all nodes */
    struct node_link **top;     /* its connections; in the same allocation */
    size_t n_touched, n_top, room;
    size_t gone;   /* receivers on nodes that are lost, or on none */
    bool numbered; /* the message has a number in each node's session; set by the caller */
};

void fan_release(struct fan *f);

/* The receivers are workers, or the agents themselves. Both set `top` to the connections, each
 * with its route. For nodes that can't be reached yet a copy of the message waits, unless it has no
 * number and the node is cut off: then it is dropped. -1: memory is
 * out; then it must not be sent, but copies may wait. */
MUST_USE int fan_workers(struct fan *f, const uint32_t *workers, size_t n, zmq_msg_t *body);
MUST_USE int fan_nodes(struct fan *f, const unsigned *nodes, size_t n, zmq_msg_t *body);

/* The nodes of the workers, each once, without lost ones. `nodes` has room for all nodes. */
size_t fan_list(struct fan *f, const uint32_t *workers, size_t n, unsigned *nodes);

struct to_agents {
    const struct clock *clock; /* borrowed */
    struct fan fan;
    unsigned *list; /* see to_agents_list() */
    size_t list_room;
};

void to_agents_release(struct to_agents *t);

/* Both: a node that can't be reached is reported as lost soon. -1: no receiver could be reached, or
 * memory is out. */
MUST_USE int to_agents_workers(struct to_agents *t, const uint32_t *workers, size_t n,
                               const struct span *m, struct err *err);
MUST_USE int to_agents_nodes(struct to_agents *t, const unsigned *nodes, size_t n,
                             const struct span *m, struct err *err);
/* The two halves of to_agents_nodes(); the second one closes the body. */
MUST_USE int to_agents_encode(const struct span *m, zmq_msg_t *body, struct err *err);
MUST_USE int to_agents_body(struct to_agents *t, const unsigned *nodes, size_t n, zmq_msg_t *body,
                            struct err *err);
/* To one node's agent; errors are logged. */
void to_agents_tell(struct to_agents *t, const struct node_link *link, const struct span *m);
/* BEAT, which also says how many of its messages have arrived. */
void to_agents_beat(struct to_agents *t, struct node_link *link);
/* Sends what has waited for the node, as far as it can be reached now. */
void to_agents_flush(struct node_link *link);

/* A shared scratch array with one entry for each node. Its content is lost at the next call. NULL:
 * memory is out. */
unsigned *to_agents_list(struct to_agents *t);

/* ---- tree_move.c ---- */
/* A node moves to its parent in the tree of agents. In a run of more than TREE_FAN nodes, an agent
 * gives up its connection to the kernel and is reached through another agent, its parent. The
 * parent is told to OPEN a port, the child to DIAL it. From DIAL until DIALED the messages for the
 * child wait, so that none overtakes another; protocol/README.md has the rules. If one step fails,
 * the child keeps its own connection. */

enum tree_move_outcome {
    TREE_MOVE_NOT_MINE, /* the message is not about a move to a parent */
    TREE_MOVE_TAKEN,
    TREE_MOVE_CUT_OFF /* the child has dialed a parent that is gone: it can't be reached any more */
};

/* The node is up: it goes to its parent if that is up, and its own children come to it. */
void tree_move_node_up(struct to_agents *out, struct node_link *link);
/* OPENED and DIALED, the answers of a parent and of a child. */
enum tree_move_outcome tree_move_message(struct to_agents *out, struct node_link *from,
                                         const struct span *m);
/* Call it before the node is marked as lost: if it was about to move, its parent expects it no
 * longer. */
void tree_move_cancel(struct to_agents *out, const struct node_link *link);
/* The connection of the node has ended, and its agent may resume: if it was about to move, it
 * stays. Children that have not dialed it yet keep their own connection. Call it before
 * node_link_cut(). */
void tree_move_node_cut(struct to_agents *out, struct node_link *link);
/* The node is lost: children that have not dialed it yet keep their own connection. */
void tree_move_parent_lost(struct to_agents *out, const struct node_link *link);

/* ---- node_tree.c ---- */
/* The tree of an engine's nodes. The first TREE_FAN have a connection to the kernel, and each node
 * has at most TREE_FAN children. Each level is filled evenly before the next one. Pure. */

#ifndef TREE_FAN /* a test has a smaller one */
#define TREE_FAN 32u
#endif
#define TREE_NONE 0xffffffffu

/* The parent of the node with that index among its engine's nodes; TREE_NONE: the kernel. */
unsigned tree_parent(unsigned index);
/* Its k-th child, from 0; there may be fewer nodes than that. TREE_NONE: no node has so many. */
unsigned tree_child(unsigned index, unsigned k);

#endif
