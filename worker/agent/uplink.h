/* uplink.h - the agent's line to the kernel: a ZeroMQ DEALER, and the envelopes on it (protocol/README.md). It knows nothing
 * of workers, so that whoever plays an agent can use it. */
#ifndef WORKER_AGENT_UPLINK_H
#define WORKER_AGENT_UPLINK_H

#include <stdint.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"

struct uplink;
/* One message for this node: `workers` is *u32, empty: for the agent itself. Both are borrowed for the call. */
typedef void (*uplink_f)(void *arg, struct slice workers, struct slice msg);

/* Dials `endpoint` and calls f for what comes from there. NULL: *err says why. */
struct uplink *uplink_open(struct loop *loop, const char *endpoint, uplink_f f, void *arg, struct err *err);
void uplink_close(struct uplink *u); /* what was sent still leaves, for a moment; NULL is fine */

/* Copies msg. worker: who it is from; 0: the agent. It is stamped into the message, whatever stood there. All that is sent in
 * one turn of the loop leaves together at its end; before WELCOME only HELLO leaves. */
MUST_USE int uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err);
uint32_t uplink_node(const struct uplink *u); /* this node's number; ROUTE_KERNEL: none yet */

#endif
