/* owner.h - decides who may connect if the channels are encrypted. CURVE alone would admit every
 * client that knows the server's public key. */
#ifndef KERNEL_JUPYTER_OWNER_H
#define KERNEL_JUPYTER_OWNER_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "kernel/jupyter/connection.h"

/* ZAP domains. OWNER: only the key of the connection file is admitted. ANYBODY: any key, for the
 * heartbeat: there clients use temporary keys, and nothing secret is sent. */
#define DOMAIN_OWNER   "owner"
#define DOMAIN_ANYBODY "anybody"

struct owner;

/* Answers the ZAP questions of the context's sockets, from the loop. */
struct owner *owner_create(struct loop *loop, void *context, const struct connection *c,
                           struct err *err);
void owner_destroy(struct owner *o); /* NULL is fine */

#endif
