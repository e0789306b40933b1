/* SPDX-License-Identifier: BSD-3-Clause */
/* prompts.h - input() in ranks and at home. */
#ifndef KERNEL_CELL_PROMPTS_H
#define KERNEL_CELL_PROMPTS_H

#include "kernel/cell/cell.h"

/* An INPUT from home (rank -1) or a rank; it is shown under r when it is the first. */
void prompts_add(struct notebook *nb, const struct request *r, uint32_t worker, long rank,
                 bool labelled, const struct span *m);
/* These remove prompts. An INPUT with `over`: its process needs no line any more. */
void prompts_drop_one(struct notebook *nb, uint32_t worker, const struct span *m);
void prompts_drop_worker(struct notebook *nb, uint32_t worker); /* all of a worker */
/* A cell begins: those of home's threads, for clients don't show prompts of a cell that is over.
 * Those of subshells' cells stay. */
void prompts_drop_ended(struct notebook *nb);
void prompts_drop_cell(const struct cell *c); /* its ranks are interrupted: all of theirs */
void prompts_answer(struct notebook *nb, struct request *r); /* an input_reply */
bool prompts_wait(const struct cell *c); /* there is a prompt of home or of one of its ranks */
void prompts_tick(struct notebook *nb);
uint64_t prompts_due(const struct notebook *nb);
void prompts_release(struct notebook *nb);

#endif
