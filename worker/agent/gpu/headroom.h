/* SPDX-License-Identifier: BSD-3-Clause */
/* headroom.h - the host's memory for processes that leave their GPUs: what one takes is free until
 * it has it, so two that leave at once would get the same. Each has a claim (claim.h) meanwhile,
 * which all notebooks of the machine count. */
#ifndef WORKER_AGENT_GPU_HEADROOM_H
#define WORKER_AGENT_GPU_HEADROOM_H

#include <stdint.h>

#include "worker/agent/gpu/claim.h"

struct headroom {
    int folder, fd; /* -1: nothing is reserved */
    char name[CLAIM_NAME];
};

/* What others have reserved, for an error's text. */
struct headroom_others {
    uint64_t bytes;
    char who[80]; /* one of them: "alice (uid 1002, pid 4711)" */
};

/* Reserves so many bytes of those that are free. most: no user can have reserved more. Where no
 * claim can be made, nothing is reserved. false: others have reserved too much. */
typedef uint64_t (*headroom_free_f)(void *arg);
bool headroom_take(struct headroom *r, uint64_t bytes, headroom_free_f is_free, void *arg,
                   uint64_t most, struct headroom_others *others);
void headroom_give_back(struct headroom *r);

#endif
