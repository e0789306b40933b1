/* ways.h - by which way a blob gets to a node that expects it: by way of the kernel, alone or with
 * others, or over a link from another node. Inner header of cargo. */
#ifndef KERNEL_AGENTS_WAYS_H
#define KERNEL_AGENTS_WAYS_H

#include "kernel/agents/cargo.h"
#include "kernel/agents/lanes.h"
#include "kernel/agents/loads.h"

/* `to`: every place of the stream for many; `from`: by way of the kernel */
#define CARGO_ALL 0xffffffffu

struct cargo {
    struct cargo_doors doors;
    struct loads loads;
    struct lanes lanes;
    unsigned *node; /* of the message that is being sent; n_nodes of them fit */
    size_t n_nodes;
    bool busy; /* large blobs move */
};

/* Room for the nodes of one message, so that what has been decided can't fail in the middle. */
MUST_USE int cargo_reserve(struct cargo *c, size_t n, struct err *err);

/* ---- what is sent ---- */

void say_to(struct cargo *c, unsigned node, const struct span *m);
void say_expect(struct cargo *c, const struct load *l, const unsigned *nodes, size_t n,
                unsigned from);
void say_ship(struct cargo *c, const struct load *l, unsigned giver, unsigned to, bool through);
void say_taken(struct cargo *c, const struct load *l, unsigned giver, unsigned to, uint64_t bytes);
void say_drop(struct cargo *c, uint64_t blob, const unsigned *nodes, size_t n);

/* ---- ways ---- */

/* Its giver begins, when the link between the two is there and it is ready; else nothing happens
 * yet. */
void way_begin(struct cargo *c, const struct load *l, struct place *p);
void way_by_kernel(struct cargo *c, const struct load *l, struct place *p, unsigned giver);
/* Over a link that is there already, else by way of the kernel. */
void way_any(struct cargo *c, struct load *l, struct place *p, unsigned giver);
/* To the n places that expect it and have no giver (CARGO_ALL) yet: they have been told to EXPECT
 * it. */
void way_all(struct cargo *c, struct load *l, size_t n, unsigned giver);

#endif
