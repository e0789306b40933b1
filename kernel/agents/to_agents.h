/* to_agents.h - sends messages to agents. A message is encoded once, and sent once on each
 * connection. What is for a node that can't be reached yet waits. */
#ifndef KERNEL_AGENTS_TO_AGENTS_H
#define KERNEL_AGENTS_TO_AGENTS_H

#include "base/clock.h"
#include "kernel/agents/fan.h"
#include "protocol/span.h"

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
/* Sends what has waited for the node, as far as it can be reached now. */
void to_agents_flush(struct node_link *link);

/* An array with room for the number of every node, for short use by anybody. NULL: memory is out.
 */
unsigned *to_agents_list(struct to_agents *t);

#endif
