/* sole.h - one rank that is shown alone: its text goes through as it comes, but for what is no
 * UTF-8. */
#ifndef KERNEL_MERGE_SOLE_H
#define KERNEL_MERGE_SOLE_H

#include "base/utf8.h"
#include "kernel/merge/show.h"

struct sole {
    long rank; /* or -1: all are shown */
    /* it draws on a screen, which is applied like the drawings of many: its text goes through no
     * more */
    bool drawn;
    struct utf8_stream utf8[2]; /* by stream */
};

static inline bool sole_passes(const struct sole *s)
{
    return s->rank >= 0 && !s->drawn;
}

/* room: for repaired text. -1: memory is out, or out() failed. */
MUST_USE int sole_lines(struct sole *s, struct show *show, unsigned stream, struct slice data,
                        struct buf *room);
/* No rest will come. */
MUST_USE int sole_end(struct sole *s, struct show *show, struct buf *room);

#endif
