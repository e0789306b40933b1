/* agents_nodes.h - how kernel/engines adds the nodes of an engine, and ends them. */
#ifndef KERNEL_AGENTS_AGENTS_NODES_H
#define KERNEL_AGENTS_AGENTS_NODES_H

#include <sys/types.h>

#include "kernel/agents/agents.h"
#include "protocol/keys.h"

/* ---- the nodes of an engine ---- */

/* An engine starts. Listens for its agents; *secret is what they need, and the text that is
 * returned is where they dial: borrowed. NULL: *err says why. */
const char *agents_nodes_expect(struct agents *a, struct secret *secret, struct err *err);
/* The engine says that it has n nodes: the first gets the number *first. On failure none is added.
 */
MUST_USE int agents_nodes_add(struct agents *a, unsigned engine, unsigned n,
                              const struct secret *secret, unsigned *first, struct err *err);
/* What the engine says about one of them. slots: see struct node. */
void agents_nodes_describe(struct agents *a, unsigned node, struct slice name, unsigned slots);
void agents_nodes_failed(struct agents *a, unsigned node, const char *why);
/* Asks the agents that are up to end their workers and themselves. */
void agents_nodes_quit(struct agents *a, unsigned first, unsigned n);
/* The engine has ended while all of its nodes were up: they are lost soon. words: why, to be kept
 * until they are, or NULL. */
void agents_nodes_orphaned(struct agents *a, unsigned first, unsigned n, const char *words);
/* The engine is stopped: its nodes are lost without a word, and no agent of it is allowed to
 * connect any more. n 0: it has not said how many there are. */
void agents_nodes_remove(struct agents *a, unsigned engine, unsigned first, unsigned n);

/* ---- this machine's agent ---- */

/* Where it dials; borrowed. */
const char *agents_nodes_here_endpoint(const struct agents *a);
/* socket: its stdin, from which descriptors of blobs come. */
void agents_nodes_here_started(struct agents *a, pid_t pid, int socket);
/* It has ended: takes in what it sent last. */
void agents_nodes_here_ended(struct agents *a);
/* NODE_HERE is lost; the handler is told. */
void agents_nodes_here_lost(struct agents *a, const char *why);

#endif
