/* admit.h - who may connect to this agent: ZeroMQ's authentication (ZAP, RFC 27) for one context,
 * answered from the loop. */
#ifndef WORKER_AGENT_ADMIT_H
#define WORKER_AGENT_ADMIT_H

#include "base/loop/loop.h"
#include "protocol/keys.h"

#define ADMIT_NAME_SIZE 16u

struct admit;

/* May the holder of this public key come in? Then *name becomes the connection's User-Id. */
typedef bool (*admit_f)(void *arg, const unsigned char key[KEY_SIZE],
                        char name[static ADMIT_NAME_SIZE]);

/* Before any socket of the context is bound as a CURVE server. A context has one of these. NULL:
 * *err says why. */
struct admit *admit_open(struct loop *loop, void *context, admit_f f, void *arg, struct err *err);
/* Counts who fails at this CURVE server before it has shown a key, too. The server is to live until
 * admit_close(). */
MUST_USE int admit_watch(struct admit *a, void *listener, struct err *err);
void admit_close(struct admit *a); /* logs the counts; NULL is fine */

#endif
