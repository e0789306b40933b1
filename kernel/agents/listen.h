/* listen.h - at which of this machine's addresses agents can reach the kernel. */
#ifndef KERNEL_AGENTS_LISTEN_H
#define KERNEL_AGENTS_LISTEN_H

#include "base/buf.h"
#include "base/err.h"
#include "kernel/agents/router.h"

/* Binds the router to one free port at the addresses that `interface` names (an interface or an IP;
 * NULL or "": all), and appends where agents may dial, in the order in which they should try:
 * "tcp://10.0.0.1:4711,tcp://[fd00::1]:4711". Loopback comes last. */
MUST_USE int listen_bind(struct router *r, const char *interface, struct buf *endpoints,
                         struct err *err);

#endif
