/* start.h - START: home, or ranks and the GPUs that each of them gets. */
#ifndef WORKER_AGENT_START_H
#define WORKER_AGENT_START_H

#include "base/slice.h"
#include "protocol/span.h"

struct agent;

/* `workers`: *u32. Ranks that are to have GPUs exist at once, and are forked when it is known which. */
void start_workers(struct agent *a, const struct span *m, struct slice workers);

#endif
