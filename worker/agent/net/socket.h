/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.h - opens ZeroMQ sockets for agents: they drop no messages, and tcp always uses CURVE. */
#ifndef WORKER_AGENT_NET_SOCKET_H
#define WORKER_AGENT_NET_SOCKET_H

#include <stdbool.h>
#include <zmq.h>

#include "base/buf.h"
#include "base/err.h"
#include "protocol/keys.h"

/* A socket for dialing. server: the other side's public key. It does not connect again by itself,
 * with a key that was used. NULL: *err says why. */
void *socket_dialer(void *context, const struct keys *own, const unsigned char *server,
                    struct err *err);
/* Call it before the socket connects: it gives up after two seconds. */
MUST_USE bool socket_limit_dial(void *socket);
/* A ROUTER that is bound to a free tcp port of all interfaces, one of those that CELLSPAN_PORT
 * allows; CURVE server with these keys. */
void *socket_router(void *context, const struct keys *own, unsigned *port, struct err *err);

/* Makes a frame of `bytes` without the first `skip`. The bytes are taken, not copied, also on
 * failure. */
MUST_USE int socket_frame(zmq_msg_t *m, struct buf *bytes, size_t skip, struct err *err);

#endif
