/* socket.h - ZeroMQ sockets as agents use them: nothing is dropped for being much, and what is
 * routable is CURVE. */
#ifndef WORKER_AGENT_NET_SOCKET_H
#define WORKER_AGENT_NET_SOCKET_H

#include <zmq.h>

#include "base/buf.h"
#include "base/err.h"
#include "protocol/keys.h"

/* A socket that will dial. own NULL: without CURVE (ipc); server: the other's public key. NULL:
 * *err says why. */
void *socket_dialer(void *context, const struct keys *own, const unsigned char *server,
                    struct err *err);
/* A ROUTER that is bound to a free tcp port of all interfaces, CURVE server with these keys. */
void *socket_router(void *context, const struct keys *own, unsigned *port, struct err *err);

/* A frame of the bytes behind the first `skip`, which are taken, not copied, also when it fails. */
MUST_USE int socket_frame(zmq_msg_t *m, struct buf *bytes, size_t skip, struct err *err);
/* Takes what is left of a message of which a frame was received. */
void socket_skip(void *socket);

#endif
