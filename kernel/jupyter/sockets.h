/* sockets.h - the ZeroMQ sockets of the five channels: one context, one I/O thread, options, keys,
 * addresses. */
#ifndef KERNEL_JUPYTER_SOCKETS_H
#define KERNEL_JUPYTER_SOCKETS_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "kernel/jupyter/connection.h"

struct heartbeat;
struct owner;

struct sockets {
    void *context;
    void *socket[PORTS]; /* the heartbeat's is NULL: its thread owns it */
    struct owner *owner; /* NULL: no encryption */
    struct heartbeat *heartbeat;
};

/* Creates and binds all five, and starts the heartbeat. On failure nothing stays open; *err names
 * the port, the file and the fix. */
MUST_USE int sockets_open(struct sockets *s, struct loop *loop, const struct connection *c,
                          struct err *err);
/* Closes all; waits up to linger_ms until sent messages have left. Safe on a zeroed struct. */
void sockets_close(struct sockets *s, int linger_ms);

#endif
