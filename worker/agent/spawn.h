/* spawn.h - makes workers: struct worker with socket and pipes, the handlers of its events, and for
 * home and zygotes the process. A zygote forks the processes of ranks. */
#ifndef WORKER_AGENT_SPAWN_H
#define WORKER_AGENT_SPAWN_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct agent;
struct worker_ends;

/* env: a JSON object of strings that is added to the agent's environment; may be empty. cwd NULL or
 * "": the agent's. NULL: *err says why. */
struct worker *spawn_home(struct agent *a, uint32_t id, const char *python, const char *cwd,
                          struct slice env, struct err *err);
/* Returns the zygote of this Python, and starts it if there is none. */
struct worker *spawn_zygote(struct agent *a, const char *python, struct err *err);
/* Starts no process; `ends` are owned by the caller. */
struct worker *spawn_rank(struct agent *a, uint32_t id, uint32_t rank, const char *python,
                          struct worker_ends *ends, struct err *err);
/* The folder of the cellspan package; the caller frees it. NULL: not known, so Python must find it
 * by itself. Call it once: the file system may be slow. */
char *spawn_package(void);

#endif
