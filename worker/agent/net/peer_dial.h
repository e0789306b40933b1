/* peer_dial.h - one agent dials another: which endpoint answers, CURVE, and DIAL with its answer.
 * protocol/README.md, DIAL. */
#ifndef WORKER_AGENT_NET_PEER_DIAL_H
#define WORKER_AGENT_NET_PEER_DIAL_H

#include "base/loop/loop.h"
#include "protocol/keys.h"
#include "protocol/span.h"

#define PEER_DIAL_LIMIT_NS (10 * NS_PER_S) /* in all */

struct peer_dial;

/* It is over, and the call is freed after this. socket: the link, the callee's from now on; NULL:
 * `why` not, from where to where. */
typedef void (*peer_dial_f)(void *arg, void *socket, const char *why);

/* dial: the kernel's DIAL. keys: ours. own: our node's number. NULL: *err says why. */
struct peer_dial *peer_dial_start(struct loop *loop, void *context, const struct keys *keys,
                                  uint32_t own, const struct span *dial, peer_dial_f f, void *arg,
                                  struct err *err);
void peer_dial_stop(struct peer_dial *c); /* f is not called any more; NULL is fine */

#endif
