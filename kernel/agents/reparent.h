/* reparent.h - in a run of more than TREE_FAN nodes, an agent gives up its connection to the kernel
 * and is reached through another agent, its parent. The parent is told to OPEN a port, the child to
 * DIAL it. From DIAL until DIALED the messages for the child wait, so that none overtakes another;
 * protocol/README.md has the rules. If one step fails, the child keeps its own connection. */
#ifndef KERNEL_AGENTS_REPARENT_H
#define KERNEL_AGENTS_REPARENT_H

#include "kernel/agents/to_agents.h"

enum reparent_outcome {
    REPARENT_NOT_MINE, /* the message is not about a move to a parent */
    REPARENT_TAKEN,
    REPARENT_CUT_OFF /* the child has dialed a parent that is gone: it can't be reached any more */
};

/* The node is up: it goes to its parent if that is up, and its own children come to it. */
void reparent_up(struct to_agents *out, struct node_link *link);
/* OPENED and DIALED, the answers of a parent and of a child. */
enum reparent_outcome reparent_message(struct to_agents *out, struct node_link *from,
                                       const struct span *m);
/* Call it before the node is marked as lost: if it was about to move, its parent expects it no
 * longer. */
void reparent_cancel(struct to_agents *out, const struct node_link *link);
/* The node is lost: children that have not dialed it yet keep their own connection. */
void reparent_parent_lost(struct to_agents *out, const struct node_link *link);

#endif
