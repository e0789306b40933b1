/* gpu_processes.h - all processes of the workers: their main processes, and those that these have
 * started, such as data loaders. */
#ifndef WORKER_AGENT_GPU_PROCESSES_H
#define WORKER_AGENT_GPU_PROCESSES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define GPU_PROCESSES_MAX 65536u
#define GPU_PROCESSES_WHO 96u

struct gpu_process {
    long pid;
    size_t worker; /* index in the array given to gpu_processes_fill */
};

struct gpu_processes {
    struct gpu_process *v; /* owned */
    size_t n;
};

#define GPU_PROCESSES_INIT { NULL, 0 }

void gpu_processes_release(struct gpu_processes *c);
/* workers: [{"worker", "pid"}, …]; an element without pid has no processes. */
MUST_USE int gpu_processes_fill(struct gpu_processes *c, const json_t *workers, struct err *err);
const struct gpu_process *gpu_processes_find(const struct gpu_processes *c,
                                             long pid); /* NULL: not one of ours */
/* The memory of a worker's processes in bytes (PSS: shared pages are divided); 0 if the system does
 * not tell. */
uint64_t gpu_processes_memory(const struct gpu_processes *c, size_t worker);
/* "alice's python"; "" if unknown: the process has ended, or is in another container. */
const char *gpu_processes_who(long pid, char out[static GPU_PROCESSES_WHO]);

#endif
