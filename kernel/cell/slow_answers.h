/* SPDX-License-Identifier: BSD-3-Clause */
/* slow_answers.h - a notice about answers for which a cell waits for long. */
#ifndef KERNEL_CELL_SLOW_ANSWERS_H
#define KERNEL_CELL_SLOW_ANSWERS_H

#include "kernel/cell/cell.h"

/* seconds, who has not answered, what was asked */
#define SLOW_ANSWER                                                                                \
    "for %.4g s %s did not say %s: that takes long, or a process is stopped (theirs, or cellspan-agent; SIGSTOP does this). An interrupt ends the cell"

uint64_t slow_answers_due(const struct cell *c);
void slow_answers_tick(struct cell *c, uint64_t now);
/* The same for home's own cells, while home's process is stopped. */
uint64_t stopped_home_due(const struct notebook *nb);
void stopped_home_tick(struct notebook *nb);

#endif
