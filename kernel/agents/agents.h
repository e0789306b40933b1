/* agents.h - the kernel's side of the wire to its agents: a ROUTER on ipc for this machine's, one
 * on tcp with CURVE for the others', engines as child processes. A door: it routes messages to the
 * agents that have the workers, carries blobs to the nodes that need them, and reports what comes
 * and who is gone.
 *
 * Nodes are numbered: NODE_HERE is this machine, where home runs; an engine's nodes get the next
 * free numbers when it says how many there will be, and no number is used twice. */
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
    void (*engine)(void *arg, unsigned engine, enum engine_event event, const char *text);
    void *arg;
};

struct agents_config {
    /* the kernel's runtime directory: the socket's place; borrowed for the call */
    const char *folder;
    const char *python; /* home's interpreter; copied */
    struct agents_handler handler;
};

/* Binds the ipc ROUTER and starts this machine's agent, which starts home. What is sent before the
 * agent has said HELLO waits. */
struct agents *agents_create(struct loop *loop, const struct agents_config *config,
                             struct err *err);
/* Asks the agents to end everything, waits for them (2 s), then kills what is left of their process
 * groups and engines. */
void agents_destroy(struct agents *a);

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
/* Nobody will ask for the blob any more: wherever it is, once it has arrived where it was sent. */
void agents_drop(struct agents *a, uint64_t blob);
/* Nor does anybody wait for it: what is still on its way stops. */
void agents_cancel(struct agents *a, uint64_t blob);

/* ---- nodes and engines ---- */

/* Starts this machine's agent again after it was lost. */
MUST_USE int agents_restart(struct agents *a, struct err *err);
/* Runs `cellspan-launch-NAME --spec SPEC --ranks N`; *engine is its number. ranks 0: not said. The
 * events follow. */
MUST_USE int agents_engine_start(struct agents *a, const char *name, const char *spec,
                                 unsigned ranks, unsigned *engine, struct err *err);
/* Ends its agents and itself; no event follows. */
void agents_engine_stop(struct agents *a, unsigned engine);
/* Its nodes are first to first+n-1. n 0: it has not said yet, or there is no such engine. */
void agents_engine_nodes(const struct agents *a, unsigned engine, unsigned *first, unsigned *n);
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
