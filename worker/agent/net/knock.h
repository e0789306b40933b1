/* SPDX-License-Identifier: BSD-3-Clause */
/* knock.h - one attempt to connect to one endpoint: a ZeroMQ socket of its own, from connect to the
 * end of CURVE's handshake. */
#ifndef WORKER_AGENT_NET_KNOCK_H
#define WORKER_AGENT_NET_KNOCK_H

#include <stdbool.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "protocol/keys.h"

struct knock;

enum knock_news {
    KNOCK_CONNECTED, /* the other side has taken the connection; the handshake has begun */
    KNOCK_UP,        /* it is the holder of the key, and lets us in */
    KNOCK_REFUSED,   /* our key was refused; this news and those below are the last */
    KNOCK_STRANGE,   /* another program listens there */
    KNOCK_FAILED     /* there is no connection */
};

/* In the call, the knock may be stopped. */
typedef void (*knock_f)(void *arg, struct knock *k, enum knock_news news);

struct knock_to {
    void *context; /* of ZeroMQ; borrowed */
    const char *endpoint;
    const struct keys *own;      /* these two are used in the call only */
    const unsigned char *server; /* the other side's public key */
    bool limited;                /* it gives up after two seconds without a connection */
};

/* NULL: *err says why. */
struct knock *knock_start(struct loop *loop, const struct knock_to *to, knock_f f, void *arg,
                          struct err *err);
/* The connection's descriptor, borrowed from ZeroMQ; -1: it is not connected. */
int knock_fd(const struct knock *k);
/* After KNOCK_UP: the socket, a DEALER that is the caller's from now on. The knock is over. */
void *knock_take(struct knock *k);
void knock_stop(struct knock *k); /* f is not called any more; NULL is fine */

#endif
