/* SPDX-License-Identifier: BSD-3-Clause */
/* live_status.h - the status of a running cell, and the memory and GPUs that ranks use. */
#ifndef KERNEL_CELL_LIVE_STATUS_H
#define KERNEL_CELL_LIVE_STATUS_H

#include "kernel/cell/cell.h"

/* ---- live_status.c ---- */
void live_init(struct cell *c);
void live_open(struct cell *c);  /* the cell has a plan, and is prepared */
void live_begin(struct cell *c); /* the ranks begin to run the cell */
uint64_t live_due(const struct cell *c);
void live_tick(struct cell *c, uint64_t now);
void live_cleared(struct cell *c); /* rank 0 cleared the cell's output */
void live_end(struct cell *c);
/* A cell that can't begin yet; live_due() says when its status is to be shown. */
void live_wait(struct cell *c);
void live_waits_for(struct cell *c, const char *what); /* shows its status */
void live_wait_over(struct cell *c);                   /* it begins or ends */

/* ---- rank_usage.c ---- */
struct rank_usage_text {
    char gpu[64];
    char other[96];
};
struct status_rank;
void rank_usage_ask(struct notebook *nb);        /* asks all nodes that have ranks */
bool rank_usage_wait(const struct notebook *nb); /* some may still answer in time */
bool rank_usage_have_gpus(const struct notebook *nb);
void rank_usage_on_gauges(struct notebook *nb, unsigned node, const struct span *m); /* a GAUGES */
void rank_usage_home_is(struct notebook *nb, long pid); /* a new home is ready */
/* Since when home's process is stopped, as by SIGSTOP, which agents tell by themselves; 0: it runs.
 * pid: where its process id goes; NULL: nowhere. */
uint64_t rank_usage_home_suspended(const struct notebook *nb, long *pid);
/* Fills in memory and GPUs of the rank, from its node's last answer; strings point into text. */
void rank_usage_row(const struct notebook *nb, const struct rank *r, struct rank_usage_text *text,
                    struct status_rank *row);
void rank_usage_release(struct notebook *nb);

#endif
