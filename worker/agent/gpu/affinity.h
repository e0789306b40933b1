/* affinity.h - binds a rank to the processors near its GPU. */
#ifndef WORKER_AGENT_GPU_AFFINITY_H
#define WORKER_AGENT_GPU_AFFINITY_H

#include <sys/types.h>

#include "base/err.h"

/* Binds all threads of the process to those of `cpus` ("0-31,64-95") that it may use now (an engine
 * may have bound us to a few). If that leaves none, or all of them, it changes nothing. 1: it was
 * bound; 0: nothing to do; -1: *err. */
MUST_USE int affinity_bind(pid_t pid, const char *cpus, struct err *err);

#endif
