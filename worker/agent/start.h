/* start.h - START: home, or ranks and the GPUs that each of them gets. */
#ifndef WORKER_AGENT_START_H
#define WORKER_AGENT_START_H

#include "base/slice.h"
#include "protocol/span.h"

struct agent;

/* `workers`: *u32. Ranks exist at once; they are forked when it is known which GPUs they get and,
 * on another machine than the notebook's, which Python there is. */
void start_workers(struct agent *a, const struct span *m, struct slice workers);

#endif
