/* SPDX-License-Identifier: BSD-3-Clause */
/* link_interrupts.h - what the link's I/O thread does for interrupts of the main thread. */
#ifndef WORKER_EXT_LINK_INTERRUPTS_H
#define WORKER_EXT_LINK_INTERRUPTS_H

#include "worker/ext/link.h"

/* Takes the signal that wakes the main thread, unless the program already has a handler for it. */
void link_interrupts_init(void);
/* An INTERRUPT of `cell` has come. If the cell has not begun because the worker is late, the
 * interrupt takes effect when it begins. A second one is for what the main thread does before it:
 * that may hang. */
void link_interrupt_came(struct worker_link *l, uint64_t cell);
/* An import of a library holds an interrupt no longer. */
void link_interrupt_at_last(struct worker_link *l);
/* Sends the main thread the signals whose time has come. Returns for how long poll() may wait, in
 * milliseconds; -1: without end. */
int link_interrupts_due(struct worker_link *l);

#endif
