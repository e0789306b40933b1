/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_before.h - the steps of a cell before ranks run it (CELL_BEFORE). */
#ifndef KERNEL_CELL_CELL_BEFORE_H
#define KERNEL_CELL_CELL_BEFORE_H

#include "kernel/cell/cell.h"

/* ---- expand.c ---- */
/* Makes the plan of a call that waits: IPython has expanded its line. An error in the line is shown
 * when the call begins. */
void expand_early(struct cell *c);
/* Makes the plan of a cell whose option line home need not expand. */
void expand_as_it_is(struct cell *c);

/* ---- capture.c ---- */
/* Asks home. early: before ranks of this machine end. -1: the cell has failed. */
int capture_ask(struct cell *c, bool early);
/* The same, unless home was asked, or the cell is a %ranks. */
int capture_ask_once(struct cell *c);
/* true: home was asked about the cell's variables, so it adds the cell to its history; or the call
 * of home has brought them. */
bool capture_is_asked(const struct cell *c);
/* What home has found out of the cell's variables, as in CAPTURED. */
void capture_take(struct cell *c, struct slice names, struct slice warnings);
void capture_note(struct cell *c); /* shows CAPTURED's warnings */
/* text: "CaptureError: lock was not sent"; the part before the colon becomes the ename. */
void capture_fail(struct cell *c, struct slice text);

/* ---- prepare.c ---- */
/* a CAPTURED, PACKED or PORT */
void prepare_on_message(struct cell *c, unsigned node, const struct span *m);

/* ---- start_ranks.c ---- */
void start_begin(struct cell *c);
/* false: too few nodes are left for all ranks, so the living ranks must end first */
bool start_poll(struct cell *c);
/* --fresh: asks whether there is room for the cell's ranks; fails the cell if there is none, while
 * the old ranks still live. If the nodes are not known yet, nothing can be asked. */
void start_try_begin(struct cell *c);
bool start_try_poll(struct cell *c); /* false: a node has not answered */
void start_on_port(struct cell *c, unsigned node, const struct span *m); /* a PORT */
/* A rank has sent READY. If its Python does not match home's, the cell fails. The others get the
 * whole time limit again. */
void start_on_ready(struct cell *c, const struct rank *r, const struct span *m);
void start_timed_out(struct cell *c); /* no rank has become ready for too long */

/* ---- gpu_memory.c ---- */
int gpu_memory_begin(struct cell *c); /* -1: the cell has failed */
bool gpu_memory_poll(struct cell *c); /* false: it waits for ranks */
/* a PROBED; false: it answers another question */
bool gpu_memory_on_probed(struct cell *c, struct rank *r, const struct span *m);
uint64_t gpu_memory_due(const struct cell *c);
void gpu_memory_tick(struct cell *c, uint64_t now);
void gpu_memory_cancel(struct cell *c); /* interrupts ranks that have not answered */
void gpu_memory_release(struct cell *c);

/* ---- follow.c ---- */
/* sends FOLLOW to ranks whose settings differ from home's; -1: the cell has failed */
int follow_tell(struct cell *c);

/* ---- compare.c ---- */
void compare_cancel(struct cell *c); /* the cell is over: interrupts ranks that still compare */

/* ---- broadcast.c ---- */
/* takes the blob of PACKED and sends it to ranks, now or later */
void broadcast_packed(struct cell *c, const struct span *packed);
/* a PROBED; false: it answers another question */
bool broadcast_on_probed(struct cell *c, struct rank *r, const struct span *m);
/* a rank's DONE says that it lacks the names that were sent */
void broadcast_failed(struct cell *c, const struct span *done);
void broadcast_timed_out(struct cell *c); /* no rank has sent the id in time */
void broadcast_cancel(struct cell *c);
void broadcast_release(struct cell *c);

#endif
