/* from_agents.h - what arrives from agents: HELLO, and bundles of messages. A connection is
 * believed only what it may say. Who it is comes from ZAP, or from the private folder of the ipc
 * socket; it speaks for its own node, and for the nodes that are reached through it. */
#ifndef KERNEL_AGENTS_FROM_AGENTS_H
#define KERNEL_AGENTS_FROM_AGENTS_H

#include "kernel/agents/router.h"

/* Handlers of a router; arg is the struct agents. */
void from_agents_received(void *agents, const struct router_message *arrival);
void from_agents_refused(void *agents, struct router *r, const char *why);

#endif
