/* SPDX-License-Identifier: BSD-3-Clause */
/* park.h - takes idle ranks off their GPUs, and brings them back. It asks ranks and agents;
 * idle_release.c decides when, and says what has come of it. */
#ifndef KERNEL_CELL_PARK_H
#define KERNEL_CELL_PARK_H

#include "kernel/notebook/notebook.h"

/* What has come of a move. */
struct park_outcome {
    bool back;                /* they were to come back, not to leave */
    struct ranks all;         /* that were to move */
    struct ranks moved, lost; /* those that have, and those that can't go on */
    bool held;                /* others have the GPUs of those that stay away */
    bool queued;              /* their agent has a place among those who wait for these GPUs, */
    unsigned ahead;           /* behind so many */
    char stuck[200];          /* who comes first, and waits for GPUs that ranks keep; or "" */
    char why[400];            /* not all have; or "" */
};

struct park;

struct park *park_create(struct notebook *nb); /* NULL: memory is out */
void park_destroy(struct park *p);             /* NULL is fine */
/* Asks these ranks, which are idle, whether they can leave, and then their agents.
 */
void park_begin(struct park *p, const struct ranks *which, uint64_t now);
bool park_some_away(const struct park *p); /* some are parked */
/* Brings back all that are parked; if they are leaving now, see park_is_wanted(). wait: where
 * others have their GPUs, their agent gets in the queue for these, or stays there. */
void park_return(struct park *p, bool wait);
/* The node of all ranks, parked or not; -1: they are on several, or there are none. */
long park_node(const struct park *p);
bool park_is_wanted(const struct park *p); /* since the last move began, park_return() was called */
bool park_asks(const struct park *p);      /* ranks have been asked, and nothing moves yet */
/* Ranks that have only been asked stay. true: some move, and must be waited for. */
bool park_interrupt(struct park *p);
/* A PROBED; false: it answers another question. */
bool park_on_probed(struct park *p, const struct rank *r, const struct span *m);
void park_on_parked(struct park *p, unsigned node, const struct span *m); /* a PARK */
void park_tick(struct park *p, uint64_t now);
uint64_t park_due(const struct park *p);
/* Once for each move, when no rank moves any more. NULL: none has ended. Valid until the next. */
const struct park_outcome *park_over(struct park *p);

#endif
