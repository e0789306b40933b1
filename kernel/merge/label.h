/* label.h - the label before a line that names its ranks: "[2] ", "[0-3] ", "[0,2-3] ". */
#ifndef KERNEL_MERGE_LABEL_H
#define KERNEL_MERGE_LABEL_H

#include "base/ranks.h"

#define LABEL_SLOTS 16u

/* A cache: the same ranks print many lines. All sets have the same number of words. */
struct labels {
    unsigned words;
    struct label {
        struct buf text;
        uint64_t *who; /* owned; NULL: the slot is free */
    } slots[LABEL_SLOTS];
};

void labels_release(struct labels *l);
/* Appends the label of the set `who` (bits as in struct ranks). -1: memory is out. */
MUST_USE int labels_add(struct labels *l, const uint64_t *who, struct buf *out);

#endif
