/* owner.h - who may connect when the channels are encrypted: CURVE alone lets in every client that
 * knows the server's public key, whatever its own. */
#ifndef KERNEL_JUPYTER_OWNER_H
#define KERNEL_JUPYTER_OWNER_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "kernel/jupyter/connection.h"

/* ZAP domains: of sockets that admit the connection file's keys only; and any key, for clients'
 * heartbeats use keys of the moment, and there is nothing to learn there. */
#define DOMAIN_OWNER   "owner"
#define DOMAIN_ANYBODY "anybody"

struct owner;

/* Answers libzmq's questions within the context, from the loop. */
struct owner *owner_create(struct loop *loop, void *context, const struct connection *c,
                           struct err *err);
void owner_destroy(struct owner *o); /* NULL is fine */

#endif
