/* SPDX-License-Identifier: BSD-3-Clause */
/* listen.h - the sockets on which agents reach the kernel: a unix socket for this machine's agent,
 * and one on tcp with CURVE for all others. The second one is opened for the first engine: without
 * engines the kernel does not listen on the network. */
#ifndef KERNEL_AGENTS_LISTEN_H
#define KERNEL_AGENTS_LISTEN_H

#include "base/buf.h"
#include "kernel/agents/allowed_keys.h"
#include "kernel/agents/router.h"

/* ---- agents_zap.c ---- */
/* Answers when ZeroMQ asks who may connect (ZAP, RFC 27), as allowed_keys.c decides. Refused
 * connections are counted, and logged once for each reason. */

#define AGENTS_ZAP_DOMAIN "agents"

/* Space for the user id of a connection: the node's number, a dot, and the beginning of its key. */
#define AGENTS_ZAP_USER_SIZE 32u
void agents_zap_user(unsigned node, const unsigned char key[KEY_SIZE],
                     char user[static AGENTS_ZAP_USER_SIZE]);

struct agents_zap;

/* For all CURVE sockets of the context; create it before they are bound. `allowed` is borrowed. */
struct agents_zap *agents_zap_create(struct loop *loop, void *context,
                                     const struct allowed_keys *allowed, struct err *err);
void agents_zap_destroy(struct agents_zap *z); /* logs the counts; NULL is fine */
/* Counts a connection that was refused for another reason than its key. `what` is one of a few
 * constant texts. */
void agents_zap_refused(struct agents_zap *z, const char *what);

/* ---- advertise.c ---- */
/* Appends the endpoints, "tcp://gw.example:41000,…", that a value of CELLSPAN_ADVERTISE names:
 * "gw.example:41000,[fd00::1]". A host without a port gets `port`. -1: *err says what is wrong with
 * it. Pure. */
MUST_USE int advertise_endpoints(const char *text, unsigned port, struct buf *out, struct err *err);

struct listen {
    void *zmq;             /* ZeroMQ's context, for remote; NULL: not made yet */
    struct router *here;   /* on a unix socket */
    char *endpoint;        /* of here; owned */
    struct router *remote; /* on tcp; NULL: not opened yet */
    struct buf endpoints;  /* of remote, in the order in which agents should try them */
    struct buf own;        /* of remote, an endpoint for programs on this machine */
    struct keys keys;      /* of remote */
    struct allowed_keys allowed;
    struct agents_zap *zap; /* asks `allowed` who may connect to remote */
};

/* Opens the unix socket in the folder. */
MUST_USE int listen_here(struct listen *l, struct loop *loop, const char *folder,
                         const struct router_handler *handler, struct err *err);
/* Opens the socket on tcp, at the addresses that CELLSPAN_INTERFACE names and a port of
 * CELLSPAN_PORT. -1: it stays closed. */
MUST_USE int listen_remote(struct listen *l, struct loop *loop,
                           const struct router_handler *handler, struct err *err);
void listen_release(struct listen *l);

#endif
