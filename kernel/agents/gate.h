/* gate.h - the door to admit.h: answers ZeroMQ's questions who may connect (ZAP, RFC 27), counts
 * who may not, and says so once for each reason. */
#ifndef KERNEL_AGENTS_GATE_H
#define KERNEL_AGENTS_GATE_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "kernel/agents/admit.h"

#define GATE_DOMAIN "agents"

struct gate;

/* For all CURVE sockets of the context. admit is borrowed. To be created before they are bound. */
struct gate *gate_create(struct loop *loop, void *context, const struct admit *admit,
                         struct err *err);
void gate_destroy(struct gate *g); /* logs the counts; NULL is fine */
/* Somebody was refused for another reason than its key. `what` is a constant text, of which there
 * are few. */
void gate_refused(struct gate *g, const char *what);

#endif
