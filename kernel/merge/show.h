/* show.h - the text on the client's screen. Puts labels before lines, keeps other ranks' text out
 * of an unfinished line, and gathers text so that a call of merge passes on few blocks. */
#ifndef KERNEL_MERGE_SHOW_H
#define KERNEL_MERGE_SHOW_H

#include "kernel/merge/fold.h"
#include "kernel/merge/label.h"
#include "kernel/merge/merge.h"

#define SHOW_LONG    16384u   /* others' lines wait for the end of an unfinished line this long */
#define SHOW_LONG_NS NS_PER_S /* unless nothing more of it came for this time */

struct show {
    struct merge_out out;
    bool labelled;
    bool refused; /* out() failed; its owner knows why */
    struct labels labels;
    struct buf text; /* of `stream`, not passed to out() yet */
    unsigned stream;
    struct show_open { /* by stream: the unfinished line on the screen */
        bool on;
        uint64_t *who;    /* owned: its ranks */
        size_t n;         /* bytes of it that are shown */
        uint64_t last_ns; /* when the last part of it came */
    } open[2];
};

int show_init(struct show *s, struct merge_out out, bool labelled, unsigned words);
void show_release(struct show *s);
/* Shows a line, or a piece of one, of these ranks. -1: memory is out or out() failed. */
MUST_USE int show_line(struct show *s, unsigned stream, const uint64_t *who, struct slice text,
                       unsigned flags, uint64_t now);
/* Does the unfinished line on the screen belong to this rank alone? */
bool show_is_open(const struct show *s, unsigned stream, unsigned rank);
/* Until when other ranks' lines must wait for the end of a long line; 0: they need not. */
uint64_t show_held_ns(const struct show *s, unsigned stream);
/* This rank prints nothing more: no line waits for the end of its unfinished line. */
void show_rank_over(struct show *s, unsigned stream, unsigned rank);
/* Passes the gathered text to out(). */
MUST_USE int show_out(struct show *s);

#endif
