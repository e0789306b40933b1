/* local_agent.h - this machine's agent as a child process. It starts home by itself. Its stdin is
 * a socket: through it the agent shares file descriptors with the kernel (local_blobs.h), and its
 * end tells the agent that the kernel is gone. */
#ifndef KERNEL_ENGINES_LOCAL_AGENT_H
#define KERNEL_ENGINES_LOCAL_AGENT_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct local_agent {
    const char *endpoint, *node, *python; /* borrowed */
    pid_t pid;                            /* 0: none */
    int in;                               /* the kernel's end of its stdin */
};

#define LOCAL_AGENT_INIT { NULL, NULL, NULL, 0, -1 }

MUST_USE int local_agent_start(struct local_agent *l, struct err *err);
/* It has ended with this wait status; writes why, for the user. */
void local_agent_ended(struct local_agent *l, int status, char *why, size_t size);
void local_agent_let_go(struct local_agent *l); /* closes its stdin, at which it ends */
void local_agent_kill(struct local_agent *l);   /* if it still runs */

#endif
