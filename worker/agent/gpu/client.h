/* client.h - the agent's end of the process that asks the driver: started by the first question,
 * and anew after it ended. */
#ifndef WORKER_AGENT_GPU_CLIENT_H
#define WORKER_AGENT_GPU_CLIENT_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop/loop.h"

struct client;
/* The answer, borrowed; or NULL, and why. */
typedef void (*client_f)(void *arg, const json_t *said, const char *why);

struct client *client_create(struct loop *loop, struct err *err);
void client_destroy(struct client *c); /* questions that wait fail now; NULL is fine */

/* Takes question, also on failure. f is called once, from the loop, within limit_ns; NULL: nobody
 * wants to know. -1: *err, and f is not called. */
MUST_USE int client_ask(struct client *c, json_t *question, uint64_t limit_ns, client_f f,
                        void *arg, struct err *err);

#endif
