/* gpu_oom.h - a cell that failed because its GPU was full: who has that memory belongs beside the
 * error. */
#ifndef WORKER_AGENT_GPU_OOM_H
#define WORKER_AGENT_GPU_OOM_H

#include <stdbool.h>

#include "base/slice.h"

struct worker;

/* A DONE from w. True: it complains of GPU memory; it is sent a moment later, with a line more in
 * its traceback. */
bool gpu_oom_takes(struct worker *w, struct slice msg);

#endif
