/* peer_zap.h - decides who may connect to this agent: answers ZeroMQ's authentication (ZAP, RFC 27)
 * for one context, from the event loop. */
#ifndef WORKER_AGENT_NET_PEER_ZAP_H
#define WORKER_AGENT_NET_PEER_ZAP_H

#include "base/loop/loop.h"
#include "protocol/keys.h"

#define PEER_ZAP_NAME_SIZE 16u

struct peer_zap;

/* May the holder of this public key connect? If so, `name` becomes the connection's User-Id. */
typedef bool (*peer_zap_f)(void *arg, const unsigned char key[KEY_SIZE],
                           char name[static PEER_ZAP_NAME_SIZE]);

/* Call it once for a context, before any socket of it is bound as a CURVE server. NULL: *err says
 * why. */
struct peer_zap *peer_zap_open(struct loop *loop, void *context, peer_zap_f f, void *arg,
                               struct err *err);
/* Also counts connections to this CURVE server that fail before they show a key. The server must
 * live until peer_zap_close(). */
MUST_USE int peer_zap_watch(struct peer_zap *a, void *listener, struct err *err);
void peer_zap_close(struct peer_zap *a); /* logs the counts; NULL is fine */

#endif
