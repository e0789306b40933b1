/* kernel.h - creates all parts of the kernel and connects them. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "base/loop/loop.h"
#include "kernel/arguments.h"

struct kernel;

/* Binds Jupyter's sockets first, then starts the agent. arguments is borrowed for the call. */
struct kernel *kernel_create(struct loop *loop, const struct arguments *arguments, struct err *err);
/* Ends everything that the kernel started, and removes its runtime directory. */
void kernel_destroy(struct kernel *k); /* NULL is fine */

#endif
