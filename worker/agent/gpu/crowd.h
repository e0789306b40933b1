/* crowd.h - the workers' processes: their main ones, and those that these started (data
 * loaders). */
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
    size_t worker; /* which element of the array that the crowd was made from */
};

struct crowd {
    struct member *v; /* owned */
    size_t n;
};

#define CROWD_INIT { NULL, 0 }

void crowd_release(struct crowd *c);
/* workers: [{"worker", "pid"}, …]; elements without them have no processes. */
MUST_USE int crowd_fill(struct crowd *c, const json_t *workers, struct err *err);
const struct member *crowd_find(const struct crowd *c, long pid); /* NULL: not one of ours */
/* Bytes of memory of a worker's processes, shared pages in parts (Pss); 0 when the system doesn't
 * tell. */
uint64_t crowd_memory(const struct crowd *c, size_t worker);
/* "alice's python"; "" when it can't be told: it has ended, or is in another container. */
const char *crowd_who(long pid, char out[static CROWD_WHO]);

#endif
