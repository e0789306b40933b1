/* gap.h - limits the text of one cell to what a page accepts (page.h). If more comes, the middle is
 * left out and the last lines are shown. The program that prints is not slowed down. Pure. */
#ifndef KERNEL_MERGE_GAP_H
#define KERNEL_MERGE_GAP_H

#include "base/buf.h"
#include "base/err.h"
#include "kernel/merge/page.h"

struct gap;

struct gap_out {
    int (*text)(void *arg, unsigned stream, struct slice text);
    /* So many lines and displays are left out at this point of the page. */
    int (*note)(void *arg, size_t lines, size_t displays);
    void *arg;
};

/* NULL: memory is out */
struct gap *gap_create(const struct clock *clock, struct page *page, struct gap_out out);
/* NULL is fine */
void gap_destroy(struct gap *g);

/* stream: 1 or 2. -1: memory is out, or out refused. */
MUST_USE int gap_text(struct gap *g, unsigned stream, struct slice text);
/* true: a display of that size may be shown now; all earlier text has been shown. false: it counts
 * as left out. */
bool gap_display(struct gap *g, size_t bytes);
/* Shows the last lines if the gap has lasted for long, or if nothing more came for a while. Call it
 * at gap_due_ns(). */
MUST_USE int gap_tick(struct gap *g);
MUST_USE int gap_flush(struct gap *g);    /* the cell is over: shows the last lines now */
uint64_t gap_due_ns(const struct gap *g); /* UINT64_MAX: nothing is left out */

#endif
