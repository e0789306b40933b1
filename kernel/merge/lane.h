/* lane.h - one stream of all ranks: lines come, wait in a fold as long as they have to, and are
 * shown. */
#ifndef KERNEL_MERGE_LANE_H
#define KERNEL_MERGE_LANE_H

#include "kernel/merge/fold.h"
#include "kernel/merge/show.h"

struct lane {
    unsigned stream;
    bool twins; /* equal lines of different ranks are one */
    unsigned words;
    struct fold *fold; /* owned */
    struct show *show; /* borrowed; both streams have one */
    uint64_t *one;     /* owned: room for a set of one rank */
};

enum lane_drain {
    LANE_DUE,  /* what has waited long enough, or has all its twins */
    LANE_RANK, /* everything up to the last line of a rank */
    LANE_ALL,
};

MUST_USE int lane_init(struct lane *l, unsigned stream, const struct ranks *living, bool twins,
                       struct show *show);
void lane_release(struct lane *l);
/* A line of this rank, or a piece of one. Shown now where nothing has to be waited for. */
MUST_USE int lane_put(struct lane *l, unsigned rank, struct slice text, unsigned flags,
                      uint64_t due_ns, uint64_t now);
/* Shows what leaves; rank: of LANE_RANK. */
MUST_USE int lane_drain(struct lane *l, enum lane_drain which, unsigned rank, uint64_t now);
uint64_t lane_due_ns(const struct lane *l); /* UINT64_MAX: nothing waits */

#endif
