/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_client.h - the agent's end of the socket to cellspan-gpus, the process that asks the
 * driver. The first question starts the process, and the next one starts it again after it has
 * ended. */
#ifndef WORKER_AGENT_GPU_PROBE_CLIENT_H
#define WORKER_AGENT_GPU_PROBE_CLIENT_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop/loop.h"

struct probe_client;
/* said: the answer, borrowed; NULL: it failed, and `why` says why. */
typedef void (*probe_client_f)(void *arg, const json_t *said, const char *why);

struct probe_client *probe_client_create(struct loop *loop, struct err *err);
void probe_client_destroy(struct probe_client *c); /* open questions fail now; NULL is fine */

/* Takes ownership of question, also on failure. f is called once, from the loop, within limit_ns; f
 * may be NULL. -1: *err, and f is not called. */
MUST_USE int probe_client_ask(struct probe_client *c, json_t *question, uint64_t limit_ns,
                              probe_client_f f, void *arg, struct err *err);

#endif
