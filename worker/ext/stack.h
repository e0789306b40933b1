/* stack.h - writes the C stack of a worker that crashes. Install it before faulthandler: that one's
 * handler writes Python's stack, restores this handler and lets the fault happen again. */
#ifndef WORKER_EXT_STACK_H
#define WORKER_EXT_STACK_H

#include "base/err.h"

/* On a fatal signal, writes the C stack to fd (borrowed, must stay open) and ends by the signal. */
MUST_USE int stack_install(int fd, struct err *err);

#endif
