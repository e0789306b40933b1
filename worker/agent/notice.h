/* SPDX-License-Identifier: BSD-3-Clause */
/* notice.h - hears that this machine will be gone soon, and tells the kernel: by SIGUSR1 and
 * SIGUSR2, or from `cellspan notice`, which writes to a socket in the agent's folder. */
#ifndef WORKER_AGENT_NOTICE_H
#define WORKER_AGENT_NOTICE_H

#include "base/loop/loop.h"
#include "worker/agent/net/kernel_link.h"

struct notice {
    struct kernel_link *kernel; /* borrowed */
    int socket;                 /* owned; -1: none */
};

#define NOTICE_INIT { NULL, -1 }

/* folder: the agent's; NULL: it has none. Without a socket the agent still works. */
MUST_USE int notice_listen(struct notice *n, struct loop *loop, struct kernel_link *kernel,
                           const char *folder, struct err *err);
void notice_release(struct notice *n);

#endif
