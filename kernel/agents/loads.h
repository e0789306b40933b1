/* loads.h - the table of blobs: on which nodes each is, and on which it is expected, from whom.
 * Pure. */
#ifndef KERNEL_AGENTS_LOADS_H
#define KERNEL_AGENTS_LOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* One node's part in one blob. */
struct place {
    unsigned node;
    bool has;       /* all of it; else it is expected there */
    unsigned giver; /* who sends it there */
    bool through;   /* by way of the kernel; else over a link between the two */
    bool many;      /* it gets the stream that is for all such places */
    bool ready;     /* it has answered EXPECT: a link's giver may begin */
    bool shipped;   /* the giver was told to */
    uint64_t had;   /* bytes, as far as it has said */
};

struct load {
    uint64_t blob, size;
    struct place *place; /* in the order of nodes; owned */
    size_t n, room;
    uint64_t passed; /* of the stream for many: what its giver knows that all have */
    bool dropped;    /* nobody will ask for it any more */
};

struct loads {
    struct load *load; /* in the order of numbers; owned */
    size_t n, room;
};

#define LOADS_INIT { NULL, 0, 0 }

void loads_release(struct loads *t);
/* Both: NULL when there is none. Valid until something is added or removed. */
struct load *loads_get(const struct loads *t, uint64_t blob);
struct place *load_at(const struct load *l, unsigned node);
/* Finds it, or adds it. NULL: memory is out. */
struct load *loads_add(struct loads *t, uint64_t blob, uint64_t size);
struct place *load_add(struct load *l, unsigned node);
void loads_remove(struct loads *t, struct load *l);
void load_remove(struct load *l, struct place *p);

/* A node that has all of it; the first. NULL: nobody has. */
const struct place *load_holder(const struct load *l);
bool load_is_moving(const struct load *l); /* is it expected anywhere? */
/* Bytes that every node of the stream for many has. */
uint64_t load_least(const struct load *l);

#endif
