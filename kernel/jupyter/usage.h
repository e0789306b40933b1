/* usage.h - answers usage_request (jupyter-resource-usage): CPU and memory of the kernel with all
 * its workers on this machine, and of the machine. */
#ifndef KERNEL_JUPYTER_USAGE_H
#define KERNEL_JUPYTER_USAGE_H

#include "base/loop/loop.h"
#include "kernel/jupyter/front.h"

struct usage;

/* The answer to r; content is for the reply, borrowed for the call. */
typedef void (*usage_reply_f)(void *arg, struct request *r, struct slice content);

struct usage *usage_create(struct loop *loop, usage_reply_f reply, void *arg, struct err *err);
void usage_destroy(struct usage *u); /* NULL is fine; waiting requests get no answer */
/* Answers after a few turns of the loop: measuring a large process takes milliseconds, so each turn
 * measures one process. */
MUST_USE int usage_ask(struct usage *u, struct request *r, struct err *err);

#endif
