/* bars.h - the progress bars of all ranks as lines, one for each rank (more where bars are nested),
 * equal ones folded. */
#ifndef KERNEL_MERGE_BARS_H
#define KERNEL_MERGE_BARS_H

#include "kernel/merge/label.h"
#include "kernel/merge/source.h"

/* Appends the lines of all sources (2 for each rank, NULL where there is none) that show a bar.
 * fold: equal ones of different ranks are one line. labels NULL: no labels. -1: memory is out. */
MUST_USE int bars_write(struct source *const *sources, size_t n, bool fold, struct labels *labels,
                        struct buf *out);

#endif
