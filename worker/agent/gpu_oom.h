/* gpu_oom.h - a cell failed because its GPU was full: adds the processes that use that memory to
 * the error. */
#ifndef WORKER_AGENT_GPU_OOM_H
#define WORKER_AGENT_GPU_OOM_H

#include <stdbool.h>

#include "base/slice.h"

struct worker;

/* A DONE from w. true: it reports that GPU memory ran out; it is sent a moment later, with one more
 * line in its traceback. */
bool gpu_oom_takes(struct worker *w, struct slice msg);

#endif
