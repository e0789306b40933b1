/* kernel.h - builds the kernel from its parts, and gives each what it needs of the others. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "base/loop/loop.h"
#include "kernel/arguments.h"

struct kernel;

/* Binds Jupyter's sockets first, then starts the agent. arguments is borrowed for the call. */
struct kernel *kernel_create(struct loop *loop, const struct arguments *arguments, struct err *err);
/* Ends everything that the kernel started, and removes its runtime directory. */
void kernel_destroy(struct kernel *h); /* NULL is fine */

#endif
