/* SPDX-License-Identifier: BSD-3-Clause */
/* idle_release.h - ends or parks ranks that have GPUs and no work, so that others can use these
 * GPUs (CELLSPAN_GPU_IDLE_RELEASE, CELLSPAN_GPU_IDLE). */
#ifndef KERNEL_CELL_IDLE_RELEASE_H
#define KERNEL_CELL_IDLE_RELEASE_H

#include "kernel/cell/cell.h"

/* after_ns: without a cell; 0: never. park: ranks are parked if they can be; keep: else they stay.
 * NULL: memory is out. */
struct idle_release *idle_release_create(struct notebook *nb, uint64_t after_ns, bool park,
                                         bool keep);
void idle_release_destroy(struct idle_release *idle); /* NULL is fine */
/* A rank has sent something: it works, even if no cell runs on it. */
void idle_release_used(struct notebook *nb, uint64_t now);
/* Something has happened, or it is due: does a cell run, and is it time? */
void idle_release_update(struct notebook *nb, uint64_t now);
/* For how long no cell has run and no rank has sent anything, in nanoseconds; 0: one runs. */
uint64_t idle_release_idle(const struct notebook *nb, uint64_t now);
uint64_t idle_release_due(const struct notebook *nb);
/* Must the cell wait for ranks that are ending? They have their GPUs still. */
bool idle_release_holds(const struct notebook *nb);
/* Brings parked ranks back for the cell. waits: it has waited for them already. true: it must wait,
 * or has failed as they can't come. */
bool idle_release_brings_back(struct cell *c, bool waits);
/* When it is time, tries again to bring back the ranks for whose GPUs this cell waits. */
void idle_release_retry(struct cell *c, uint64_t now);
void idle_release_wake(struct notebook *nb); /* something else than a cell may need parked ranks */
/* A PROBED; false: it answers another question. */
bool idle_release_on_probed(struct notebook *nb, const struct rank *r, const struct span *m);
void idle_release_on_parked(struct notebook *nb, unsigned node, const struct span *m); /* a PARK */

#endif
