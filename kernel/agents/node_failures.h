/* node_failures.h - nodes that are gone: their connection ended, they are silent for too long, or
 * somebody else says so. */
#ifndef KERNEL_AGENTS_NODE_FAILURES_H
#define KERNEL_AGENTS_NODE_FAILURES_H

#include "kernel/agents/agents.h"
#include "kernel/agents/node_link.h"
#include "kernel/agents/router.h"

/* The timer that looks for silent nodes; it is off until node_failures_start(). */
MUST_USE int node_failures_watch(struct agents *a, struct err *err);
void node_failures_start(struct agents *a);

/* The node is lost, and with it all nodes that are reached through it; the handler is told. */
void node_failures_lose(struct agents *a, struct node_link *link, const char *why);
/* The node alone, and nobody is told. */
void node_failures_lose_quietly(struct agents *a, struct node_link *link);
/* The node is lost in a moment, so that its engine can say why before. */
void node_failures_expect(struct agents *a, struct node_link *link);
/* Handler of a router: a connection has ended. */
void node_failures_disconnected(void *agents, struct router *r, int fd);

#endif
