/* SPDX-License-Identifier: BSD-3-Clause */
/* agents.h - the connections to the agents: a unix socket for this machine's agent, and a ROUTER on
 * tcp with CURVE for all others. Messages go to the agents that have the workers, blobs to the
 * nodes that need them; the handler is told what arrives, and which nodes are up or lost. The
 * processes (those of the engines, and this machine's agent) are in kernel/engines.
 *
 * Nodes have numbers: NODE_HERE is this machine, where home runs; the nodes of an engine get the
 * next free numbers when it says how many there are. No number is used twice. */
#ifndef KERNEL_AGENTS_AGENTS_H
#define KERNEL_AGENTS_AGENTS_H

#include <sys/types.h>

#include "base/loop/loop.h"
#include "kernel/agents/node.h"
#include "protocol/keys.h"
#include "protocol/span.h"

struct agents;

struct agents_handler {
    /* worker: who sent it; SPAN_WORKER_NONE: the node's agent. m is borrowed for the call. */
    void (*message)(void *arg, unsigned node, uint32_t worker, const struct span *m);
    void (*up)(void *arg, unsigned node); /* not called for NODE_HERE */
    /* A node is gone with all of its workers, or it will not come. `why` is for the user. */
    void (*lost)(void *arg, unsigned node, const char *why);
    /* It is shown as away from now on (struct node, shown_away), or no more. NULL: not wanted. */
    void (*away_changed)(void *arg, unsigned node);
    void *arg;
};

/* Listens on a unix socket in the kernel's folder. handler is copied. What is sent to an agent
 * before it has said HELLO waits. */
struct agents *agents_create(struct loop *loop, const char *folder,
                             const struct agents_handler *handler, struct err *err);
void agents_destroy(struct agents *a); /* NULL is fine; to be called after engines_destroy() */

/* ---- sending ---- */

/* Says on which node a worker will be started. Other workers are on NODE_HERE. */
MUST_USE int agents_place(struct agents *a, uint32_t worker, unsigned node);
/* The message is encoded once, and sent once on each connection. If the message has a blob, nodes
 * that lack the blob get it first. */
MUST_USE int agents_send(struct agents *a, const uint32_t *workers, size_t n, const struct span *m,
                         struct err *err);
/* To the agents themselves. After QUIT nobody waits for those that are away: they are lost soon,
 * but not within the call. */
MUST_USE int agents_send_nodes(struct agents *a, const unsigned *nodes, size_t n,
                               const struct span *m, struct err *err);
/* Asks all agents that are up to end their workers and themselves. */
void agents_quit(struct agents *a);
/* No later message has this blob. Each node drops it when the nodes that wait for it have it. */
void agents_drop(struct agents *a, uint64_t blob);
/* No node waits for this blob any more: all nodes drop it at once, also if it is incomplete. */
void agents_cancel(struct agents *a, uint64_t blob);

/* ---- nodes ---- */

/* NULL: there was never such a node. Borrowed. */
const struct node *agents_node(const struct agents *a, unsigned node);
/* Bytes of large variables that are on their way to that node, as blob_schedule_expected() says. */
uint64_t agents_expected(const struct agents *a, unsigned node, uint64_t *had, uint64_t *whole);

/* ---- credit ---- */

/* The kernel has read this many bytes from the worker. The worker gets as much credit back, by
 * CREDIT messages sent in batches. */
void agents_owe(struct agents *a, uint32_t worker, size_t bytes);
/* While held, no CREDIT is sent: the workers stop when their windows are used up. */
void agents_hold(struct agents *a, bool hold);
/* The worker is gone: no CREDIT is owed to it, and it is on no node. */
void agents_forget(struct agents *a, uint32_t worker);

/* ---- agents_nodes.c ---- */
/* How kernel/engines adds the nodes of an engine, and ends them. */

/* ---- the nodes of an engine ---- */

/* Listens for an engine's agents. Fills *secret for them. Returns the endpoints that they dial
 * (borrowed). NULL: *err says why. */
const char *agents_nodes_expect(struct agents *a, struct secret *secret, struct err *err);
/* What a program on this machine dials to forward connections of such agents. Borrowed. */
const char *agents_nodes_own_endpoint(const struct agents *a);
/* The engine says that it has n nodes: the first gets the number *first. On failure none is added.
 */
MUST_USE int agents_nodes_add(struct agents *a, unsigned engine, unsigned n,
                              const struct secret *secret, unsigned *first, struct err *err);
/* Their engine tells when an agent of theirs ends (docs/launchers.md, contract 2), so one that is
 * silent is waited for. */
void agents_nodes_told(struct agents *a, unsigned first, unsigned n);
/* Another machine comes in place of this node, which is lost now if it is not yet; `why` is for the
 * user then. The new node has the old one's index and a key of its own; the old key stays dead. Its
 * number is *number. turn: how many nodes had this index before. */
MUST_USE int agents_nodes_replace(struct agents *a, unsigned node, unsigned turn, const char *why,
                                  const struct secret *secret, unsigned *number, struct err *err);
/* What the engine has reported about one of them. slots: see struct node. */
void agents_nodes_describe(struct agents *a, unsigned node, struct slice name, unsigned slots);
/* One of them will be gone in so many seconds: as if its agent had sent NOTICE. If it is not up
 * yet, that is given when it is. */
void agents_nodes_notice(struct agents *a, unsigned node, uint64_t seconds, struct slice text);
/* Their time is over then; see struct node. */
void agents_nodes_end_at(struct agents *a, unsigned first, unsigned n, uint64_t ns);
void agents_nodes_failed(struct agents *a, unsigned node, const char *why);
/* Its engine has lost the way to it, and looks for it. If nothing comes from its agent, either, it
 * is shown as away earlier. */
void agents_nodes_way_lost(struct agents *a, unsigned node);
/* Asks the agents that are up to end their workers and themselves. */
void agents_nodes_quit(struct agents *a, unsigned engine);
/* The engine ended while all its nodes were up, so they will be lost soon. why: the reason, which
 * must stay valid until then; or NULL. */
void agents_nodes_orphaned(struct agents *a, unsigned engine, const char *why);
/* The engine is stopped: its nodes are lost (the handler is not called), and its agents may no
 * longer connect. known: it has said how many there are. */
void agents_nodes_remove(struct agents *a, unsigned engine, bool known);

/* ---- this machine's agent ---- */

const char *agents_nodes_here_endpoint(const struct agents *a); /* Where it dials; borrowed. */
/* socket: its stdin, from which descriptors of blobs come. */
void agents_nodes_here_started(struct agents *a, pid_t pid, int socket);
void agents_nodes_here_ended(struct agents *a); /* It has ended: takes in what it sent last. */
/* NODE_HERE is lost; the handler is told. */
void agents_nodes_here_lost(struct agents *a, const char *why);

#endif
