/* SPDX-License-Identifier: BSD-3-Clause */
/* turn.h - whose turn it is to get GPUs: the notebooks of a machine that wait for some, of all
 * users, without a process that leads them. Each has a file beside the leases, which is its own
 * user's and locked, so that nobody else can make, lock or remove it, and so that it counts for
 * nothing when its process is gone. */
#ifndef WORKER_AGENT_GPU_TURN_H
#define WORKER_AGENT_GPU_TURN_H

#include "base/err.h"
#include "worker/agent/gpu/gpu_list.h"

#define TURN_OF_USER 16u /* places of one user that count */
#define TURN_WHO     160u
/* files of the folder that are looked at */
#define TURN_SEEN_MAX 32768u
#define TURN_CUT      "the folder of the leases has more than 32768 files"

struct gpu_turn; /* a notebook's place */

struct turn_needs {
    unsigned wants; /* GPUs; 0: the others need not wait for us */
    unsigned holds; /* and keeps while it waits */
};

/* Waits for some of these GPUs from now on: behind all that wait already. NULL: *err. */
struct gpu_turn *turn_open(int folder, struct turn_needs needs, const struct gpus *gpus,
                           struct err *err);
/* Call it regularly: tells the others how many are wanted now, and
 * makes the file again if somebody has removed it. -1: *err; the place is unchanged. */
MUST_USE int turn_keep(struct gpu_turn *t, int folder, struct turn_needs needs, struct err *err);
/* Call it once a second: says to the others that we still wait. Who does not for 10 s is in
 * nobody's way until he does again. -1: errno. */
MUST_USE int turn_renew(struct gpu_turn *t);
void turn_close(struct gpu_turn *t); /* gives the place up; NULL is fine */

struct turn_ahead {
    bool cut;        /* there are too many files to find all: TURN_CUT */
    bool stuck;      /* `who`, who comes first, waits for what we keep: it would never end */
    unsigned places; /* notebooks that come first */
    unsigned gpus;   /* how many they want, each no more than there are in `gpus`; at most 65535 */
    char who[TURN_WHO]; /* the first of them that wants some: "alice (pid 4711, since 14:03)", or
                         * "alice (uid 1002, file NAME)" if that process is not known as his; or ""
                         */
};

/* What comes first. t NULL: we don't wait, and all who do come first. */
void turn_look(struct gpu_turn *t, int folder, const struct gpus *gpus, struct turn_ahead *out);
/* The same, and which of the GPUs that nobody holds are for those: kept[i] is gpus->v[i]. Each gets
 * some of those that will do for him, the last ones. out->who is the first who gets one. */
void turn_keep_for(struct gpu_turn *t, int folder, const struct gpus *gpus, const bool *is_free,
                   bool *kept, struct turn_ahead *out);

#endif
