/* agents_zap.h - the door to allowed_keys.h: answers ZeroMQ's questions who may connect (ZAP, RFC
 * 27), counts who may not, and says so once for each reason. */
#ifndef KERNEL_AGENTS_AGENTS_ZAP_H
#define KERNEL_AGENTS_AGENTS_ZAP_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "kernel/agents/allowed_keys.h"

#define AGENTS_ZAP_DOMAIN "agents"

struct agents_zap;

/* For all CURVE sockets of the context. `allowed` is borrowed. To be created before they are bound.
 */
struct agents_zap *agents_zap_create(struct loop *loop, void *context,
                                     const struct allowed_keys *allowed, struct err *err);
void agents_zap_destroy(struct agents_zap *g); /* logs the counts; NULL is fine */
/* Somebody was refused for another reason than its key. `what` is a constant text, of which there
 * are few. */
void agents_zap_refused(struct agents_zap *g, const char *what);

#endif
