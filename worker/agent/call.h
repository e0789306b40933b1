/* call.h - one agent dials another: which endpoint answers, CURVE, and DIAL with its answer.
 * protocol/README.md, DIAL. */
#ifndef WORKER_AGENT_CALL_H
#define WORKER_AGENT_CALL_H

#include "base/loop/loop.h"
#include "protocol/keys.h"
#include "protocol/span.h"

#define CALL_LIMIT_NS (10 * NS_PER_S) /* in all */

struct call;

/* It is over, and the call is freed after this. socket: the link, the callee's from now on; NULL:
 * `why` not, from where to where. */
typedef void (*call_f)(void *arg, void *socket, const char *why);

/* dial: the kernel's DIAL. keys: ours. own: our node's number. NULL: *err says why. */
struct call *call_start(struct loop *loop, void *context, const struct keys *keys, uint32_t own,
                        const struct span *dial, call_f f, void *arg, struct err *err);
void call_stop(struct call *c); /* f is not called any more; NULL is fine */

#endif
