/* SPDX-License-Identifier: BSD-3-Clause */
/* idle_release.h - ends ranks that have GPUs and no work, so that others can use these GPUs
 * (CELLSPAN_GPU_IDLE_RELEASE). */
#ifndef KERNEL_CELL_IDLE_RELEASE_H
#define KERNEL_CELL_IDLE_RELEASE_H

#include "kernel/cell/cell.h"

/* after_ns: without a cell; 0: never. NULL: memory is out. free() releases it. */
struct idle_release *idle_release_create(uint64_t after_ns);
/* A rank has sent something: it works, even if no cell runs on it. */
void idle_release_used(struct notebook *nb, uint64_t now);
/* Something has happened, or it is due: does a cell run, and is it time? */
void idle_release_update(struct notebook *nb, uint64_t now);
/* For how long no cell has run and no rank has sent anything, in nanoseconds; 0: one runs. */
uint64_t idle_release_idle(const struct notebook *nb, uint64_t now);
uint64_t idle_release_due(const struct notebook *nb);
/* Must the cell wait for ranks that are ending? They have their GPUs still. */
bool idle_release_holds(const struct notebook *nb);

#endif
