/* show.h - what stands on the client's screen: labels before lines, no rank's text within another's
 * line, and text gathered so that one call of merge puts out as few blocks as it can. */
#ifndef KERNEL_MERGE_SHOW_H
#define KERNEL_MERGE_SHOW_H

#include "kernel/merge/fold.h"
#include "kernel/merge/label.h"
#include "kernel/merge/merge.h"

#define SHOW_LONG    16384u   /* a line of that size is not broken for others' at once */
#define SHOW_LONG_NS NS_PER_S /* but it is when nothing more of it came for so long */

struct show {
    struct merge_out out;
    bool labelled;
    bool refused; /* out() failed: it has its own words for why */
    struct labels labels;
    struct buf text; /* of `stream`, not put out yet */
    unsigned stream;
    struct show_open { /* by stream: the line that is shown without its end */
        bool on;
        uint64_t *who;    /* owned */
        size_t n;         /* bytes of it that are shown */
        uint64_t last_ns; /* when some of it came last */
    } open[2];
};

int show_init(struct show *s, struct merge_out out, bool labelled, unsigned words);
void show_release(struct show *s);
/* Shows a line, or a piece of one, of these ranks. -1: memory is out or out() failed. */
MUST_USE int show_line(struct show *s, unsigned stream, const uint64_t *who, struct slice text,
                       unsigned flags, uint64_t now);
/* Is the unfinished line on the screen this rank's alone? */
bool show_is_open(const struct show *s, unsigned stream, unsigned rank);
/* Until when other ranks' lines have to wait for the end of a long line; 0: they need not. */
uint64_t show_held_ns(const struct show *s, unsigned stream);
/* Nothing more of this rank's line comes. */
void show_rank_over(struct show *s, unsigned stream, unsigned rank);
/* Hands over what was gathered. */
MUST_USE int show_out(struct show *s);

#endif
