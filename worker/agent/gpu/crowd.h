/* crowd.h - all processes of the workers: their main processes, and those that these have started,
 * such as data loaders. */
#ifndef WORKER_AGENT_GPU_CROWD_H
#define WORKER_AGENT_GPU_CROWD_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CROWD_MAX 65536u
#define CROWD_WHO 96u

struct member {
    long pid;
    size_t worker; /* index in the array given to crowd_fill */
};

struct crowd {
    struct member *v; /* owned */
    size_t n;
};

#define CROWD_INIT { NULL, 0 }

void crowd_release(struct crowd *c);
/* workers: [{"worker", "pid"}, …]; an element without pid has no processes. */
MUST_USE int crowd_fill(struct crowd *c, const json_t *workers, struct err *err);
const struct member *crowd_find(const struct crowd *c, long pid); /* NULL: not one of ours */
/* The memory of a worker's processes in bytes (PSS: shared pages are divided); 0 if the system does
 * not tell. */
uint64_t crowd_memory(const struct crowd *c, size_t worker);
/* "alice's python"; "" if unknown: the process has ended, or is in another container. */
const char *crowd_who(long pid, char out[static CROWD_WHO]);

#endif
