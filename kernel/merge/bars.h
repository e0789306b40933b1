/* bars.h - shows the progress bars of all ranks as lines: one for each rank, or several if its bars
 * are nested. Equal ones may be folded into one. */
#ifndef KERNEL_MERGE_BARS_H
#define KERNEL_MERGE_BARS_H

#include "kernel/merge/label.h"
#include "kernel/merge/source.h"

/* Appends the lines of all sources that show a bar. There are 2 sources for each rank; an entry may
 * be NULL. fold: equal lines of different ranks become one. labels NULL: no labels. -1: memory is
 * out. */
MUST_USE int bars_write(struct source *const *sources, size_t n, bool fold, struct labels *labels,
                        struct buf *out);

#endif
