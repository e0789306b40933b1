/* router.h - a ROUTER socket, which agents dial: bytes in and out, with a limit for each turn of
 * the loop. */
#ifndef KERNEL_AGENTS_ROUTER_H
#define KERNEL_AGENTS_ROUTER_H

#include <zmq.h>

#include "base/loop/loop.h"
#include "protocol/keys.h"

struct router;

/* A message from a connection. All borrowed for the call. */
struct router_message {
    struct router *router;
    struct slice identity; /* of the connection; answers go there */
    const char *user;      /* as ZAP admitted it; "" without CURVE */
    int fd;                /* of the connection; -1: not known */
    struct slice first;    /* the only frame, if `frames` is 1 */
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

/* keys: for a CURVE server, borrowed for the call, with the domain for ZAP. NULL: no encryption,
 * for a socket in a private folder. */
struct router *router_create(struct loop *loop, void *context, const struct keys *keys,
                             const char *domain, const struct router_handler *handler,
                             struct err *err);
void router_destroy(struct router *r); /* NULL is fine */
/* Can be called again for more addresses. */
MUST_USE int router_bind(struct router *r, const char *endpoint, struct err *err);
unsigned router_port(const struct router *r); /* The tcp port that was bound last; 0: none. */

/* The body is copied by reference. */
MUST_USE int router_send(struct router *r, struct slice identity, struct slice route,
                         zmq_msg_t *body, struct err *err);
/* Reads all messages that have arrived, and calls `arrived` for each. */
void router_drain(struct router *r);
/* Handles all pending events of connections first, and calls `parted`, so that a descriptor number
 * reused by a new connection is not taken for the old one. */
void router_settle(struct router *r);

#endif
