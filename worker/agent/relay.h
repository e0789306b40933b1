/* relay.h - passes messages and their blobs between the kernel and a worker; only the header is
 * read. A worker's text is read here, too, so that it keeps its place among the messages. */
#ifndef WORKER_AGENT_RELAY_H
#define WORKER_AGENT_RELAY_H

#include "protocol/span.h"

struct agent;
struct worker;

/* What the loop calls for a worker's socket, and for each of its pipes. */
void relay_event(void *worker, int fd, unsigned events);
void relay_pipe(void *worker, int fd, unsigned events);

/* Kernel to worker: msg is the whole message, `head` its header. The message waits while the socket
 * has no room, and while its blob is still expected. Later messages wait behind it, unless they are
 * urgent. */
void relay_down(struct worker *w, const struct span *head, struct slice msg);
/* The agent's own message to a worker (CUT, SYNCED). */
void relay_tell(struct worker *w, const struct span *m);

/* The blob is in the agent's table now. Or it will not arrive: then `error` says why, for the user.
 * Messages that waited for it leave. */
void relay_settle(struct agent *a, uint64_t blob, const char *error);

/* Reads all messages that are left in the socket of a dead worker. */
void relay_read_rest(struct worker *w);

#endif
