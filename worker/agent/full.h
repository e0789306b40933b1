/* full.h - a cell that failed because its GPU was full: who has that memory belongs beside the
 * error. */
#ifndef WORKER_AGENT_FULL_H
#define WORKER_AGENT_FULL_H

#include <stdbool.h>

#include "base/slice.h"

struct worker;

/* A DONE from w. True: it complains of GPU memory; it is sent a moment later, with a line more in
 * its traceback. */
bool full_takes(struct worker *w, struct slice msg);

#endif
