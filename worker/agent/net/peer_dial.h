/* peer_dial.h - dials another agent: finds the endpoint that answers with CURVE, sends DIAL and
 * waits for its answer. protocol/README.md, DIAL. */
#ifndef WORKER_AGENT_NET_PEER_DIAL_H
#define WORKER_AGENT_NET_PEER_DIAL_H

#include "base/loop/loop.h"
#include "protocol/keys.h"
#include "protocol/span.h"

#define PEER_DIAL_LIMIT_NS (10 * NS_PER_S) /* for all of it */

struct peer_dial;

/* Called at the end; the dial is freed after this call. socket: the connection, owned by the callee
 * from now on. NULL: it failed, and `why` says why, with the addresses of both sides. */
typedef void (*peer_dial_f)(void *arg, void *socket, const char *why);

/* dial: the kernel's DIAL. keys: this agent's. own: this node's number. NULL: *err says why. */
struct peer_dial *peer_dial_start(struct loop *loop, void *context, const struct keys *keys,
                                  uint32_t own, const struct span *dial, peer_dial_f f, void *arg,
                                  struct err *err);
void peer_dial_stop(struct peer_dial *c); /* f is not called any more; NULL is fine */

#endif
