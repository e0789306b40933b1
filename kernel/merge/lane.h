/* lane.h - one stream (stdout or stderr) of all ranks: lines wait in a fold as long as they must,
 * and are then shown. */
#ifndef KERNEL_MERGE_LANE_H
#define KERNEL_MERGE_LANE_H

#include "kernel/merge/fold.h"
#include "kernel/merge/show.h"

struct lane {
    unsigned stream;
    bool twins; /* equal lines of different ranks become one */
    unsigned words;
    struct fold *fold; /* owned */
    struct show *show; /* borrowed; both streams share it */
    uint64_t *one;     /* owned: scratch room for a set of one rank */
};

enum lane_drain {
    LANE_DUE,  /* lines that have waited long enough or have all their twins */
    LANE_RANK, /* all lines up to the last line of a rank */
    LANE_ALL,
};

MUST_USE int lane_init(struct lane *l, unsigned stream, const struct ranks *living, bool twins,
                       struct show *show);
void lane_release(struct lane *l);
/* Adds a line of this rank, or a piece of one. Shows it at once if it need not wait. */
MUST_USE int lane_put(struct lane *l, unsigned rank, struct slice text, unsigned flags,
                      uint64_t due_ns, uint64_t now);
/* Shows the lines that `which` selects; rank: only for LANE_RANK. */
MUST_USE int lane_drain(struct lane *l, enum lane_drain which, unsigned rank, uint64_t now);
uint64_t lane_due_ns(const struct lane *l); /* UINT64_MAX: nothing waits */

#endif
