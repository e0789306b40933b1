/* zap.h - who may connect when the channels are encrypted (ZeroMQ RFC 27): CURVE alone lets in every client that knows
 * the server's public key, whatever its own. */
#ifndef KERNEL_JUPYTER_ZAP_H
#define KERNEL_JUPYTER_ZAP_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "kernel/jupyter/connection.h"

#define ZAP_OWNER "owner"     /* domain of sockets that admit the connection file's keys only */
#define ZAP_ANYBODY "anybody" /* any key: clients' heartbeats use keys of the moment; there is nothing to learn there */

struct zap;

/* Answers libzmq's questions within the context, from the loop. */
struct zap *zap_create(struct loop *loop, void *context, const struct connection *c, struct err *err);
void zap_destroy(struct zap *z); /* NULL is fine */

#endif
