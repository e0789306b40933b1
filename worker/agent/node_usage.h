/* node_usage.h - answers GPUS and GAUGES: this node's GPUs, and the memory of its workers. */
#ifndef WORKER_AGENT_NODE_USAGE_H
#define WORKER_AGENT_NODE_USAGE_H

#include <stdint.h>

#include "base/err.h"
#include "protocol/span.h"
#include "worker/agent/gpu/gpu.h"

struct agent;

void node_usage_gpus(struct agent *a, const struct span *m);
void node_usage_all(struct agent *a, const struct span *m);

/* Home and the ranks that have a process, without the worker `without` (0: all). */
struct node_workers {
    struct gpu_worker *v; /* owned */
    char (*who)[24];      /* owned: the texts in v */
    size_t n;
};

MUST_USE int node_workers_init(struct node_workers *c, const struct agent *a,
                               uint32_t without); /* -1: memory is out; c is empty then */
void node_workers_release(struct node_workers *c);

#endif
