/* agents_zap.h - answers when ZeroMQ asks who may connect (ZAP, RFC 27), as allowed_keys.h
 * decides. Refused connections are counted, and logged once for each reason. */
#ifndef KERNEL_AGENTS_AGENTS_ZAP_H
#define KERNEL_AGENTS_AGENTS_ZAP_H

#include "base/err.h"
#include "base/loop/loop.h"
#include "kernel/agents/allowed_keys.h"

#define AGENTS_ZAP_DOMAIN "agents"

struct agents_zap;

/* For all CURVE sockets of the context; create it before they are bound. `allowed` is borrowed. */
struct agents_zap *agents_zap_create(struct loop *loop, void *context,
                                     const struct allowed_keys *allowed, struct err *err);
void agents_zap_destroy(struct agents_zap *z); /* logs the counts; NULL is fine */
/* Counts a connection that was refused for another reason than its key. `what` is one of a few
 * constant texts. */
void agents_zap_refused(struct agents_zap *z, const char *what);

#endif
