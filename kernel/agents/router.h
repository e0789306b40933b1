/* router.h - a ROUTER socket: what agents dial. A door: bytes in and out, bounded work per turn;
 * what they mean is others' business. */
#ifndef KERNEL_AGENTS_ROUTER_H
#define KERNEL_AGENTS_ROUTER_H

#include <stdbool.h>
#include <zmq.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"
#include "protocol/keys.h"

struct router;

/* What came by one connection. All borrowed for the call. */
struct router_message {
    struct router *router;
    struct slice identity; /* of the connection: answers go there */
    const char *user;      /* whom ZAP admitted; "" where there is no CURVE */
    int fd;                /* of the connection; -1: not known */
    struct slice first;    /* the only frame, if `frames` is 1 */
    struct slice last;
    unsigned frames;
};

struct router_handler {
    void (*arrived)(void *arg, const struct router_message *a);
    void (*parted)(void *arg, struct router *r, int fd); /* a connection has ended */
    /* a stranger's: not even a handshake */
    void (*refused)(void *arg, struct router *r, const char *why);
    void *arg;
};

/* keys: of a CURVE server, borrowed for the call, with ZAP's domain; NULL: in clear, for a socket
 * in a private folder. */
struct router *router_create(struct loop *loop, void *context, const struct keys *keys,
                             const char *domain, const struct router_handler *handler,
                             struct err *err);
void router_destroy(struct router *r); /* NULL is fine */
/* May be called again for other addresses. */
MUST_USE int router_bind(struct router *r, const char *endpoint, struct err *err);
/* The tcp port that it was bound to last; 0: none. */
unsigned router_port(const struct router *r);

/* The body is copied by reference. */
MUST_USE int router_send(struct router *r, struct slice identity, struct slice route,
                         zmq_msg_t *body, struct err *err);
/* Takes in everything that has come; `arrived` is called for each. */
void router_drain(struct router *r);
/* Takes in which connections have ended: a number of a connection that comes after this is not that
 * of an older one. */
void router_settle(struct router *r);

#endif
