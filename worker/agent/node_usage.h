/* node_usage.h - GPUS and GAUGES: what the kernel asks of this node's GPUs and of its workers'
 * memory. */
#ifndef WORKER_AGENT_NODE_USAGE_H
#define WORKER_AGENT_NODE_USAGE_H

#include <stdint.h>

#include "base/err.h"
#include "protocol/span.h"
#include "worker/agent/gpu/gpu.h"

struct agent;

void node_usage_gpus(struct agent *a, const struct span *m);
void node_usage_all(struct agent *a, const struct span *m);

/* Home and the ranks that have a process, but for `without` (0: all). */
struct node_workers {
    struct gpu_worker *v; /* owned */
    char (*who)[24];      /* owned: what v's texts are */
    size_t n;
};

MUST_USE int node_workers_init(struct node_workers *c, const struct agent *a,
                               uint32_t without); /* -1: memory is out; c is empty then */
void node_workers_release(struct node_workers *c);

#endif
