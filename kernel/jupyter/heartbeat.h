/* heartbeat.h - sends back what comes, from a thread of its own, so that it answers whatever the
 * loop is doing. */
#ifndef KERNEL_JUPYTER_HEARTBEAT_H
#define KERNEL_JUPYTER_HEARTBEAT_H

#include "base/err.h"

struct heartbeat;

/* Takes the bound ROUTER (also when it fails: then it is closed); from here on only the thread
 * touches it. */
struct heartbeat *heartbeat_start(void *socket, struct err *err);
/* Waits for the thread, which ends and closes its socket once the socket's context was shut down.
 * NULL is fine. */
void heartbeat_join(struct heartbeat *h);

#endif
