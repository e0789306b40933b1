/* peer_accept.h - agents that dial this one: OPEN lets each in by its key, once. Their bundles and
 * blobs arrive at one router socket. protocol/README.md, OPEN. */
#ifndef WORKER_AGENT_NET_PEER_ACCEPT_H
#define WORKER_AGENT_NET_PEER_ACCEPT_H

#include "protocol/span.h"

struct peers;

void peer_accept_open(struct peers *p, const struct span *m); /* OPEN */
/* Closes the router. Call it once every peer is destroyed. */
void peer_accept_close(struct peers *p);

#endif
