/* SPDX-License-Identifier: BSD-3-Clause */
/* place.h - decides which rank of a world runs on which node. Pure. */
#ifndef KERNEL_GROUP_PLACE_H
#define KERNEL_GROUP_PLACE_H

#include <limits.h>

#include "base/buf.h"

#define PLACE_NOWHERE UINT_MAX

/* The facts about a node that decide how many ranks it gets. */
struct place_node {
    unsigned node;     /* its number */
    const char *name;  /* shown to users; borrowed */
    unsigned slots;    /* ranks that the engine or the user wants there; 0: not given */
    unsigned gpus;     /* GPUs that ranks of this notebook have or may get there */
    unsigned gpus_all; /* the same, including GPUs that others hold */
    long cores;        /* 0: not known */
    /* who else holds GPUs there, or why there are none; for users; borrowed; NULL or "": nothing */
    const char *held;
    const char *quota; /* why `gpus` is less than what nobody else holds; borrowed; NULL or "": it
                        * is not */
};

struct place_want {
    unsigned gpus; /* for each rank; 0: one, if there are GPUs */
    bool no_gpu;
    bool own;         /* each rank sees only its own GPUs */
    bool share;       /* GPUs that others hold may be used, and several ranks may hold one */
    bool nccl_shares; /* NCCL, too, accepts several ranks on one GPU */
};

/* How many GPUs each rank gets: 0 if these machines have none, or none is wanted. */
unsigned place_gpus(const struct place_node *node, size_t n, const struct place_want *want);
/* How many ranks can get their GPUs; 0: there are no GPUs. */
unsigned place_world_of_gpus(const struct place_node *node, size_t n,
                             const struct place_want *want);
/* The default number of ranks: the number of slots, else one for each GPU, else one for each core,
 * at most 4, but at least one for each machine. */
unsigned place_world(const struct place_node *node, size_t n, const struct place_want *want);

/* Appends "; h1: no driver: …" for machines that tell why they have no GPUs. -1: memory is out. */
MUST_USE int place_add_whys(const struct place_node *node, size_t n, struct buf *out);

/* Places ranks. at: the index of the machine of each of the group's `size` ranks, or PLACE_NOWHERE
 * for a rank that does not live; such ranks below `world` are placed and filled in. before: the old
 * machine of each rank, which it gets again if other ranks still live; may be NULL. Ranks follow
 * the order of the machines: each machine gets as many as it has slots or GPUs, else an even share.
 * -1: there is no room, and *err says for how many ranks there is; `at` is unchanged. */
MUST_USE int place_ranks(const struct place_node *node, size_t n, const struct place_want *want,
                         unsigned *at, const unsigned *before, unsigned world, unsigned size,
                         struct err *err);

#endif
