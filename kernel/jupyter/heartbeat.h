/* heartbeat.h - echoes heartbeats from a thread of its own, so that it answers even while the loop
 * is busy. */
#ifndef KERNEL_JUPYTER_HEARTBEAT_H
#define KERNEL_JUPYTER_HEARTBEAT_H

#include "base/err.h"

struct heartbeat;

/* Takes ownership of the bound ROUTER, which from now on only the thread uses. On failure the
 * socket is closed. */
struct heartbeat *heartbeat_start(void *socket, struct err *err);
/* Waits for the thread, which ends when the socket's context is shut down. NULL is fine. */
void heartbeat_join(struct heartbeat *h);

#endif
