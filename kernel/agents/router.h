/* SPDX-License-Identifier: BSD-3-Clause */
/* router.h - a socket that agents dial: bytes in and out, with a limit for each turn of the loop.
 * There are two kinds: network_router.c has a ROUTER of ZeroMQ on tcp, for agents of other
 * machines; local_router.c has a unix socket, for this machine's. */
#ifndef KERNEL_AGENTS_ROUTER_H
#define KERNEL_AGENTS_ROUTER_H

#include <zmq.h>

#include "base/loop/loop.h"
#include "protocol/keys.h"

struct router {
    const struct router_ops *ops;
};

/* A message from a connection. All borrowed for the call. */
struct router_message {
    struct router *router;
    struct slice identity; /* of the connection; answers go there */
    const char *user;      /* as ZAP admitted it; "" without CURVE */
    /* of the connection; -1: it has ended, or is not known. router_settle() may change it */
    int fd;
    struct slice first; /* the only frame, if `frames` is 1 */
    struct slice last;
    unsigned frames;
};

struct router_handler {
    void (*arrived)(void *arg, const struct router_message *a);
    void (*parted)(void *arg, struct router *r, int fd); /* a connection has ended */
    /* a connection that has not even finished a handshake */
    void (*refused)(void *arg, struct router *r, const char *why);
    void *arg;
};

struct router_ops {
    int (*send)(struct router *r, struct slice identity, struct slice route, zmq_msg_t *body,
                struct err *err);
    void (*drain)(struct router *r);
    void (*settle)(struct router *r);
    void (*destroy)(struct router *r);
};

/* The body is copied by reference. */
MUST_USE static inline int router_send(struct router *r, struct slice identity, struct slice route,
                                       zmq_msg_t *body, struct err *err)
{
    return r->ops->send(r, identity, route, body, err);
}

/* Reads all messages that have arrived, and calls `arrived` for each. */
static inline void router_drain(struct router *r)
{
    r->ops->drain(r);
}

/* Handles all pending events of connections first, and calls `parted`, so that a descriptor number
 * reused by a new connection is not taken for the old one. */
static inline void router_settle(struct router *r)
{
    r->ops->settle(r);
}

static inline void router_destroy(struct router *r) /* NULL is fine */
{
    if (r)
        r->ops->destroy(r);
}

/* ---- network_router.c ---- */

/* keys: of the CURVE server, borrowed for the call; domain: for ZAP. */
struct router *network_router_create(struct loop *loop, void *context, const struct keys *keys,
                                     const char *domain, const struct router_handler *handler,
                                     struct err *err);
/* Can be called again for more addresses. Returns 0, or the errno with which it failed. */
MUST_USE int network_router_bind(struct router *r, const char *endpoint);
void network_router_unbind(struct router *r, const char *endpoint); /* as it was bound */
unsigned network_router_port(const struct router *r); /* that was bound last; 0: none */

/* ---- local_router.c ---- */

/* Listens at the path, which is in a private folder. Calls neither `parted` nor `refused`. */
struct router *local_router_create(struct loop *loop, const char *path,
                                   const struct router_handler *handler, struct err *err);

#endif
