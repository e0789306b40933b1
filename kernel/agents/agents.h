/* agents.h - the kernel's side of the wire to its agents: one ROUTER, one agent a node, engines as child processes.
 * A door: it routes messages to the agent that has the worker, and reports what comes and who is gone. */
#ifndef KERNEL_AGENTS_AGENTS_H
#define KERNEL_AGENTS_AGENTS_H

#include "base/loop/loop.h"
#include "protocol/span.h"

struct agents;

struct agents_handler {
    /* worker: who sent it; SPAN_WORKER_NONE: the agent itself. m is borrowed for the call. */
    void (*message)(void *arg, uint32_t worker, const struct span *m);
    /* An agent is gone and every worker of its node with it. `why` is for the user. */
    void (*lost)(void *arg, const char *why);
    void *arg;
};

struct agents_config {
    const char *folder;  /* the kernel's runtime directory: the socket's place; borrowed for the call */
    const char *python;  /* home's interpreter; copied */
    struct agents_handler handler;
};

/* Binds the ROUTER and starts this machine's agent, which starts home. What is sent before the agent has said HELLO waits. */
struct agents *agents_create(struct loop *loop, const struct agents_config *config, struct err *err);
/* Asks the agents to end everything, waits for them (2 s), then kills what is left of their process groups. */
void agents_destroy(struct agents *a);

/* One encoding, one message to each agent that has one of the workers. n 0: to the (first) agent itself. */
MUST_USE int agents_send(struct agents *a, const uint32_t *workers, size_t n, const struct span *m, struct err *err);
/* Starts this machine's agent again after it was lost. */
MUST_USE int agents_restart(struct agents *a, struct err *err);
/* The worker has bytes on the way that were taken in: they are given back as CREDIT, in batches. */
void agents_owe(struct agents *a, uint32_t worker, size_t bytes);
/* While held, nothing is given back: the workers stop when their windows are used up. */
void agents_hold(struct agents *a, bool hold);
/* The worker is gone: nothing is owed to it. */
void agents_forget(struct agents *a, uint32_t worker);
const char *agents_node(const struct agents *a); /* the node's name, for people */
long agents_pid(const struct agents *a);
long agents_cores(const struct agents *a);       /* of the node; 0: not known yet */

#endif
