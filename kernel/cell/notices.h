/* SPDX-License-Identifier: BSD-3-Clause */
/* notices.h - machines that will be gone soon, as their agents or engines say: the line about it,
 * and the function that ranks run then (cellspan.on_notice()). meeting.h decides when. */
#ifndef KERNEL_CELL_NOTICES_H
#define KERNEL_CELL_NOTICES_H

#include "kernel/cell/cell.h"

void notices_take(struct notebook *nb, unsigned node, const struct span *m); /* a NOTICE */
void notices_met(struct notebook *nb, struct rank *r, const struct span *m); /* a MET */
void notices_update(struct notebook *nb); /* something has happened: have ranks ended the cell? */
uint64_t notices_due(const struct notebook *nb);
void notices_tick(struct notebook *nb);
/* Was the machine to leave, now or later? */
bool notices_leaves(const struct notebook *nb, unsigned node);
bool notices_end(const struct notebook *nb, unsigned node); /* the same, about now */
/* Appends, for the error of a rank there, who has said so and what came of the function. -1: memory
 * is out. */
MUST_USE int notices_words(const struct notebook *nb, unsigned node, struct buf *out);
void notices_release(struct notebook *nb);

#endif
