/* agents.h - the connections to the agents: one ROUTER socket on ipc for this machine's agent, one
 * on tcp with CURVE for all others. Messages go to the agents that have the workers, blobs to the
 * nodes that need them; the handler is told what arrives, and which nodes are up or lost. The
 * processes, engines and this machine's agent, are in kernel/engines.
 *
 * Nodes have numbers: NODE_HERE is this machine, where home runs; the nodes of an engine get the
 * next free numbers when it says how many there are. No number is used twice. */
#ifndef KERNEL_AGENTS_AGENTS_H
#define KERNEL_AGENTS_AGENTS_H

#include "base/loop/loop.h"
#include "kernel/agents/node.h"
#include "protocol/span.h"

struct agents;

struct agents_handler {
    /* worker: who sent it; SPAN_WORKER_NONE: the node's agent. m is borrowed for the call. */
    void (*message)(void *arg, unsigned node, uint32_t worker, const struct span *m);
    void (*up)(void *arg, unsigned node); /* it said HELLO and is welcome; not told of NODE_HERE */
    /* A node is gone, or will not come, and every worker of it with it. `why` is for the user. */
    void (*lost)(void *arg, unsigned node, const char *why);
    void *arg;
};

struct agents_config {
    /* the kernel's runtime directory: the socket's place; borrowed for the call */
    const char *folder;
    struct agents_handler handler;
};

/* Binds the ipc socket. What is sent to an agent before it has said HELLO waits. */
struct agents *agents_create(struct loop *loop, const struct agents_config *config,
                             struct err *err);
void agents_destroy(struct agents *a); /* NULL is fine; to be called after engines_destroy() */

/* ---- sending ---- */

/* Which node a worker that START names will be on; workers without one are on NODE_HERE. */
MUST_USE int agents_place(struct agents *a, uint32_t worker, unsigned node);
/* One encoding, one message to each agent that K has a link to. A blob that a node lacks is sent
 * ahead of it. */
MUST_USE int agents_send(struct agents *a, const uint32_t *workers, size_t n, const struct span *m,
                         struct err *err);
/* To the agents themselves. */
MUST_USE int agents_send_nodes(struct agents *a, const unsigned *nodes, size_t n,
                               const struct span *m, struct err *err);
/* Asks all agents that are up to end their workers and themselves. */
void agents_quit(struct agents *a);
/* Nobody will ask for the blob any more: wherever it is, once it has arrived where it was sent. */
void agents_drop(struct agents *a, uint64_t blob);
/* Nor does anybody wait for it: what is still on its way stops. */
void agents_cancel(struct agents *a, uint64_t blob);

/* ---- nodes ---- */

/* NULL: there was never such a node. Borrowed until the next event. */
const struct node *agents_node(const struct agents *a, unsigned node);
/* Bytes of large variables that are on their way to that node, as blob_schedule_expected() says. */
uint64_t agents_expected(const struct agents *a, unsigned node, uint64_t *had);

/* ---- credit ---- */

/* The worker has bytes on the way that were taken in: they are given back as CREDIT, in batches. */
void agents_owe(struct agents *a, uint32_t worker, size_t bytes);
/* While held, nothing is given back: the workers stop when their windows are used up. */
void agents_hold(struct agents *a, bool hold);
/* The worker is gone: nothing is owed to it, and it is on no node. */
void agents_forget(struct agents *a, uint32_t worker);

#endif
