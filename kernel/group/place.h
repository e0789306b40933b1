/* place.h - which rank of a world stands on which machine. Pure. */
#ifndef KERNEL_GROUP_PLACE_H
#define KERNEL_GROUP_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define PLACE_NOWHERE UINT_MAX

/* A machine on which ranks may be. */
struct place_node {
    unsigned node;    /* its number */
    const char *name; /* for people; borrowed */
    unsigned slots;   /* ranks that the engine or the user wants there; 0: not said */
    /* that ranks of this notebook may have there, with those that they have already */
    unsigned gpus;
    unsigned gpus_all; /* the same with those that others hold */
    long cores;        /* 0: not known */
    /* for people; borrowed; NULL or "": nothing. Who else holds GPUs there, or why there are
     * none */
    const char *held;
};

struct place_want {
    unsigned gpus; /* of each rank; 0: one, where there are some */
    bool no_gpu;
    bool own;   /* each rank sees no GPUs but its own */
    bool share; /* GPUs that others hold will do, and several ranks may hold one */
};

/* GPUs that each rank gets: 0 when there is none on these machines, or none is wanted. */
unsigned place_gpus(const struct place_node *node, size_t n, const struct place_want *want);
/* How many ranks the GPUs are enough for; 0: there is none. */
unsigned place_world_of_gpus(const struct place_node *node, size_t n,
                             const struct place_want *want);
/* How many ranks there are where nobody says: the slots, else one for each GPU, else one for each
 * core, 4 at most and at least one for each machine. */
unsigned place_world(const struct place_node *node, size_t n, const struct place_want *want);

/* Adds "; h1: no driver: …" for those without GPUs that say why. -1: memory is out. */
MUST_USE int place_add_whys(const struct place_node *node, size_t n, struct buf *out);

/* at: of each of the group's `size` ranks the index of its machine, or PLACE_NOWHERE of those that
 * do not live; the ones of them that are below `world` are placed, and filled in. before: where
 * each was before, which is preferred where others still live; may be NULL. Ranks follow the order
 * of the machines: as many as have slots or GPUs, else evenly. -1: there is no room, and *err says
 * for how many there is; at is as it was. */
MUST_USE int place_ranks(const struct place_node *node, size_t n, const struct place_want *want,
                         unsigned *at, const unsigned *before, unsigned world, unsigned size,
                         struct err *err);

#endif
