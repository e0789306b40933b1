/* relay.h - messages between the kernel and a worker, passed on unread but for their header, and
 * the blobs beside them. */
#ifndef WORKER_AGENT_RELAY_H
#define WORKER_AGENT_RELAY_H

#include "base/loop/loop.h"
#include "protocol/span.h"

struct agent;
struct worker;

/* What the loop calls for a worker's socket, and for each of its pipes. */
void relay_event(struct loop *loop, int fd, unsigned events, void *worker);
void relay_pipe(struct loop *loop, int fd, unsigned events, void *worker);

/* Kernel to worker: msg is the whole message, `head` its header. What the socket has no room for
 * waits, and so does what rides on a blob that is expected, with all that follows and is not
 * urgent. */
void relay_down(struct worker *w, const struct span *head, struct slice msg);
/* The agent's own message to a worker (CUT, SYNCED). */
void relay_tell(struct worker *w, const struct span *m);

/* The blob is in the agent's table now; or it won't come: error, for the user, says why. What
 * waited for it leaves. */
void relay_settle(struct agent *a, uint64_t blob, const char *error);

/* All that is left in the socket of a dead worker. */
void relay_read_rest(struct worker *w);

#endif
