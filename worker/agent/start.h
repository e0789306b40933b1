/* start.h - START: starts home, or ranks with the GPUs that each of them gets. */
#ifndef WORKER_AGENT_START_H
#define WORKER_AGENT_START_H

#include "base/slice.h"
#include "protocol/span.h"

struct agent;

/* `workers`: *u32. Workers for ranks exist at once. Their processes are forked once it is known
 * which GPUs they get and, on another machine than the notebook's, which Python they run. */
void start_workers(struct agent *a, const struct span *m, struct slice workers);

#endif
