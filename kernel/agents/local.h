/* local.h - this machine's agent, a child of the kernel: started, watched, ended, and what it
 * leaves swept up. It starts home by itself. Its stdin is a socket, whose end tells it that the
 * kernel is gone, and over which it lends the kernel descriptors (lent.h). */
#ifndef KERNEL_AGENTS_LOCAL_H
#define KERNEL_AGENTS_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct local {
    const char *endpoint, *node, *python; /* borrowed */
    pid_t pid;                            /* 0: none */
    int in;                               /* our end of its stdin */
};

#define LOCAL_INIT { NULL, NULL, NULL, 0, -1 }

MUST_USE int local_start(struct local *l, struct err *err);
/* It has ended with this wait status: why, in words. */
void local_ended(struct local *l, int status, char *why, size_t size);
void local_let_go(struct local *l); /* its stdin ends, and so does it */
void local_kill(struct local *l);   /* if it still is there */

#endif
