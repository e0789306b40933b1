/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_runs.h - the steps of a cell from RUN to its end (CELL_RUNS, CELL_AFTER). */
#ifndef KERNEL_CELL_CELL_RUNS_H
#define KERNEL_CELL_CELL_RUNS_H

#include "kernel/cell/cell.h"
#include "kernel/status/status.h"

/* ---- run_cell.c ---- */
/* %pull from one rank, given as a number: it pulls values, not lists by rank */
bool run_pulls_values(const struct cell *c);
/* Adds the names that %pull wants, comma-separated. -1: memory is out. */
MUST_USE int run_add_pulled(const struct cell *c, struct buf *out);
void run_begin(struct cell *c);
/* Marks the members that did not get their message as interrupted, so that the cell does not wait
 * for their answers. */
void run_leave_out(struct cell *c);
/* Has the cell ended? If it has failed (cell_fail()) and ranks still run it, stops them. */
enum cell_outcome run_poll(struct cell *c);
/* all members have ended: shows their errors */
enum cell_outcome run_end(struct cell *c);

/* ---- exchange.c ---- */
/* A rank's HAND: to home; and the rank may take loads that are for any rank. */
void exchange_on_rank_hand(struct cell *c, const struct member *member, const struct span *m);
/* Home's HAND: to a rank, or to whichever takes it. */
void exchange_on_home_hand(struct cell *c, const struct span *m);
void exchange_interrupt(struct cell *c); /* home may be running the user's code for ranks */
/* The rank has died: home is told which loads it had not finished. */
void exchange_rank_died(struct cell *c, unsigned rank, struct slice why);
/* How many items ranks have finished; false: they do not take any that are counted. */
bool exchange_counts(const struct cell *c, struct status_count *count);
void exchange_release(struct cell *c);

/* ---- rank_events.c ---- */
void rank_events_on_done(struct notebook *nb, struct rank *r, const struct span *m);
void rank_events_on_exited(struct notebook *nb, uint32_t worker, const struct span *m);
/* The rank has ended, or nothing that it says is heard any more: its widgets become text, its open
 * comm messages are answered, its questions are forgotten, and the debugger waits for it no longer.
 * Call it before rank_end(). */
void rank_events_gone(struct notebook *nb, const struct rank *r);
/* the node is lost, and all its ranks with it */
void rank_events_lost(struct notebook *nb, unsigned node, const char *why);
/* leaves ranks behind that do not end although they were killed; when: stop_wait_for_killed_due()
 */
void rank_events_tick(struct cell *c, uint64_t now);
/* The node is shown as away from now on, or no more. A cell whose ranks were killed waits for none.
 */
void rank_events_away_changed(struct notebook *nb, unsigned node);

/* ---- bind_home.c ---- */
void bind_drop_blobs(struct cell *c);
/* All values that home waits for are small, so RETURN carries them. */
bool bind_return_has_values(const struct cell *c);

#endif
