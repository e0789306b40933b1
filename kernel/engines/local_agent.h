/* local_agent.h - this machine's agent, a child of the kernel: started, watched, ended, and what it
 * leaves swept up. It starts home by itself. Its stdin is a socket, whose end tells it that the
 * kernel is gone, and over which it lends the kernel descriptors (local_blobs.h). */
#ifndef KERNEL_ENGINES_LOCAL_AGENT_H
#define KERNEL_ENGINES_LOCAL_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct local_agent {
    const char *endpoint, *node, *python; /* borrowed */
    pid_t pid;                            /* 0: none */
    int in;                               /* our end of its stdin */
};

#define LOCAL_AGENT_INIT { NULL, NULL, NULL, 0, -1 }

MUST_USE int local_agent_start(struct local_agent *l, struct err *err);
/* It has ended with this wait status: why, in words. */
void local_agent_ended(struct local_agent *l, int status, char *why, size_t size);
void local_agent_let_go(struct local_agent *l); /* its stdin ends, and so does it */
void local_agent_kill(struct local_agent *l);   /* if it still is there */

#endif
