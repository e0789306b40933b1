/* spawn.h - starts the Pythons that the agent executes itself: home and zygotes. */
#ifndef WORKER_AGENT_SPAWN_H
#define WORKER_AGENT_SPAWN_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "worker/agent/processes/worker.h"

/* env: a JSON object of strings that is added to ours; may be empty. cwd: NULL or "": ours. NULL:
 * *err says why. */
struct worker *spawn_worker(struct agent *a, enum worker_role role, uint32_t id, const char *python,
                            const char *cwd, struct slice env, struct err *err);
/* Where the cellspan package is, the caller's (free()); NULL: on the Python's own path, for all
 * that we know. Asked once: it may be far away. */
char *spawn_package(void);

#endif
