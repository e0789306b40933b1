/* sole.h - passes on the text of a rank that is shown alone; only repairs invalid UTF-8. */
#ifndef KERNEL_MERGE_SOLE_H
#define KERNEL_MERGE_SOLE_H

#include "base/utf8.h"
#include "kernel/merge/show.h"

struct sole {
    long rank; /* -1: all ranks are shown */
    /* the rank draws as on a terminal: from now on its text takes all steps of merge.c */
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
/* The rank is over: an incomplete character is replaced. */
MUST_USE int sole_end(struct sole *s, struct show *show, struct buf *room);

#endif
