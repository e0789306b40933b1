/* stack.h - the C stack of a worker that crashes. Installed before faulthandler, whose handler
 * writes Python's stack, puts this one back and lets the fault happen again. */
#ifndef WORKER_EXT_STACK_H
#define WORKER_EXT_STACK_H

#include "base/err.h"

/* On a fatal signal, writes the C stack to fd (borrowed, must stay open) and dies of that
 * signal. */
MUST_USE int stack_install(int fd, struct err *err);

#endif
