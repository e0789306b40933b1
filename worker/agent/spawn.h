/* spawn.h - makes workers: the record, its socket and pipes, who gets their events, and for home
 * and zygotes the process. A rank's process is forked by a zygote. */
#ifndef WORKER_AGENT_SPAWN_H
#define WORKER_AGENT_SPAWN_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct agent;
struct worker_ends;

/* env: a JSON object of strings that is added to ours; may be empty. cwd: NULL or "": ours. NULL:
 * *err says why. */
struct worker *spawn_home(struct agent *a, uint32_t id, const char *python, const char *cwd,
                          struct slice env, struct err *err);
/* The zygote of this Python, which is started when there is none. */
struct worker *spawn_zygote(struct agent *a, const char *python, struct err *err);
/* Without a process; `ends` are then the caller's. */
struct worker *spawn_rank(struct agent *a, uint32_t id, uint32_t rank, const char *python,
                          struct worker_ends *ends, struct err *err);
/* Where the cellspan package is, the caller's (free()); NULL: on the Python's own path, for all
 * that we know. Asked once: it may be far away. */
char *spawn_package(void);

#endif
