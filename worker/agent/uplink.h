/* uplink.h - the agent's one line to the kernel: a ZeroMQ DEALER and the envelopes on it. */
#ifndef WORKER_AGENT_UPLINK_H
#define WORKER_AGENT_UPLINK_H

#include <stdint.h>

#include "base/err.h"
#include "base/loop/loop.h"
#include "base/slice.h"

struct uplink;
/* One envelope: `workers` is *u32. Both are borrowed for the call. */
typedef void (*uplink_f)(void *arg, struct slice workers, struct slice msg);

/* Dials `endpoint` and calls f for what comes from there. NULL: *err says why. */
struct uplink *uplink_open(struct loop *loop, const char *endpoint, uplink_f f, void *arg, struct err *err);
void uplink_close(struct uplink *u); /* what was sent still leaves, for a moment; NULL is fine */

/* Copies msg. worker: who it is from; 0: the agent. It is stamped into the message, whatever stood there. */
MUST_USE int uplink_send(struct uplink *u, uint32_t worker, struct slice msg, struct err *err);

#endif
