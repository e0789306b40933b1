/* label.h - the ranks before a line: "[2] ", "[0-3] ", "[0,2-3] ". */
#ifndef KERNEL_MERGE_LABEL_H
#define KERNEL_MERGE_LABEL_H

#include "base/ranks.h"

#define LABEL_SLOTS 16u

/* A few ranks print many lines: the last labels are kept. All sets have the same number of
 * words. */
struct labels {
    unsigned words;
    struct label {
        struct buf text;
        uint64_t *who; /* owned; NULL: the slot is free */
    } slots[LABEL_SLOTS];
};

void labels_release(struct labels *l);
/* Appends the label of the set (words of it as struct ranks has them). -1: memory is out. */
MUST_USE int labels_add(struct labels *l, const uint64_t *who, struct buf *out);

#endif
