/* affinity.h - a rank runs on the processors that are near its GPU. */
#ifndef WORKER_AGENT_GPU_AFFINITY_H
#define WORKER_AGENT_GPU_AFFINITY_H

#include <sys/types.h>

#include "base/err.h"

/* Keeps all threads of the process to those of `cpus` ("0-31,64-95") that it may use already (an
 * engine may have pinned us to a few). Nothing changes when none is left, or all are. 1: it was
 * bound; 0: there was nothing to do; -1: *err. */
MUST_USE int affinity_bind(pid_t pid, const char *cpus, struct err *err);

#endif
