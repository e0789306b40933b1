/* listen.h - the sockets on which agents reach the kernel: one on ipc for this machine's agent, and
 * one on tcp with CURVE for all others. The second one is opened for the first engine: a kernel
 * that never leaves its machine does not listen there. */
#ifndef KERNEL_AGENTS_LISTEN_H
#define KERNEL_AGENTS_LISTEN_H

#include "base/buf.h"
#include "kernel/agents/agents_zap.h"
#include "kernel/agents/router.h"

struct listen {
    void *zmq;             /* ZeroMQ's context */
    struct router *here;   /* on ipc */
    char *endpoint;        /* of here; owned */
    struct router *remote; /* on tcp; NULL: not opened yet */
    struct buf endpoints;  /* of remote, in the order in which agents should try them */
    struct keys keys;      /* of remote */
    struct allowed_keys allowed;
    struct agents_zap *zap; /* asks `allowed` who may connect to remote */
};

/* Opens the socket on ipc in the folder. */
MUST_USE int listen_here(struct listen *l, struct loop *loop, const char *folder,
                         const struct router_handler *handler, struct err *err);
/* Opens the socket on tcp, at the addresses that CELLSPAN_INTERFACE names. -1: it stays closed. */
MUST_USE int listen_remote(struct listen *l, struct loop *loop,
                           const struct router_handler *handler, struct err *err);
void listen_release(struct listen *l);

#endif
