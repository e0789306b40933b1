/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_stops.h - how ranks are stopped after a failure, an interrupt or a time limit. */
#ifndef KERNEL_CELL_CELL_STOPS_H
#define KERNEL_CELL_CELL_STOPS_H

#include "kernel/cell/cell.h"

/* ---- stop_cell.c ---- */
int stop_init(struct cell *c); /* -1: memory is out */
void stop_release(struct cell *c);
void stop_set_timeout(struct cell *c); /* --timeout counts from now on */
void stop_tell_maxima(struct cell *c); /* says which of its times are above the site's maximum */
void stop_running(struct cell *c);     /* interrupts the members that still run */
void stop_cancel(struct cell *c);      /* all members have ended: turns the timers off */
/* A member has failed. Waits a moment, since other members may fail with the same error, and then
 * stops those that still run. */
void stop_after_failure(struct cell *c);
/* Time limits of all cells come ns later: a worker was stopped at a breakpoint for that time. */
void stop_put_off(struct notebook *nb, uint64_t ns);
uint64_t stop_due(const struct cell *c);
void stop_tick(struct cell *c, uint64_t now);
void stop_by_interrupt(struct cell *c); /* by the user */
/* `cellspan run` got the signal: passes it on to the script's ranks */
void stop_by_signal(struct cell *c, unsigned signal);
/* Ranks get SIGKILL in after_ns. The kernel waits LEFT_BEHIND_NS longer, and then no more. */
void stop_wait_for_killed(struct cell *c, uint64_t after_ns);
uint64_t
stop_wait_for_killed_due(const struct cell *c);   /* when the kernel waits for them no more */
void stop_wait_for_killed_cancel(struct cell *c); /* nobody waits for them any more */
/* sends the signal, and SIGKILL after grace_ms; the ranks become RANK_STOPPING */
void stop_signal_ranks(struct notebook *nb, struct group *g, const struct ranks *which,
                       unsigned signal, uint64_t grace_ms);
/* Before the cell, its ranks may still run callbacks of widgets. Those that take too long are
 * interrupted. */
uint64_t stop_callbacks_due(const struct cell *c);
void stop_callbacks_tick(struct cell *c, uint64_t now);
void stop_on_stack(struct cell *c, uint32_t worker, struct slice text);

/* ---- cut_ranks.c ---- */
void cut_ranks_begin(struct cell *c);
void cut_ranks_cancel(struct cell *c);               /* does not wait for answers any more */
void cut_ranks_put_off(struct cell *c, uint64_t ns); /* answers may come ns later */
uint64_t cut_ranks_due(const struct cell *c);
void cut_ranks_on_connections(struct cell *c, unsigned node, const struct span *m);
void cut_ranks_tick(struct cell *c, uint64_t now);
void cut_ranks_release(struct cell *c);

#endif
