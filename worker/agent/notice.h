/* SPDX-License-Identifier: BSD-3-Clause */
/* notice.h - hears that this machine will be gone soon, and tells the kernel: by SIGUSR1 and
 * SIGUSR2, by SIGTERM where an engine says so, or from `cellspan notice`, which writes to a socket
 * in the agent's folder. */
#ifndef WORKER_AGENT_NOTICE_H
#define WORKER_AGENT_NOTICE_H

#include "base/loop/loop.h"
#include "worker/agent/net/kernel_link.h"

struct notice {
    struct kernel_link *kernel; /* borrowed */
    int socket;                 /* owned; -1: none */
    unsigned sigterm_s; /* SIGTERM comes so many seconds before the end; 0: it is no notice */
    struct loop *loop;  /* borrowed */
    struct watch *kept; /* the last notice waits until the agent has dialed; NULL: none does */
    uint64_t until_ns;  /* its time */
    bool is_signal;
    char text[1024];
};

#define NOTICE_INIT { .socket = -1 }

/* For process_hold_notices(), which main() has called: the signals are handled from now on. folder:
 * the agent's; NULL: it has none. Without a socket the agent still works. */
MUST_USE int notice_listen(struct notice *n, struct loop *loop, struct kernel_link *kernel,
                           const char *folder, struct err *err);
void notice_release(struct notice *n);

#endif
