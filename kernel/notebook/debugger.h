/* SPDX-License-Identifier: BSD-3-Clause */
/* debugger.h - the notebook's debugger: kernel/debug/ with this notebook's clients and workers. */
#ifndef KERNEL_NOTEBOOK_DEBUGGER_H
#define KERNEL_NOTEBOOK_DEBUGGER_H

#include "kernel/debug/debug.h"
#include "kernel/notebook/notebook.h"

struct debugger {
    struct debug *front;    /* owned */
    struct request *parent; /* owned reference: the last debug_request; events are shown under it */
    uint64_t since_ns;      /* since when time limits are suspended; NEVER: they aren't */
    bool released;          /* after an interrupt: limits count, though a worker is still stopped */
};

/* a client's debug_request */
void debugger_request(struct notebook *nb, struct request *r);
/* A DEBUGGED. If it is the last stopped worker's that continues: returns how long workers were
 * stopped at a breakpoint; else 0. */
uint64_t debugger_message(struct notebook *nb, uint32_t worker, const struct span *m);
void debugger_join(struct notebook *nb, const struct rank *r); /* a rank is ready */
void debugger_join_home(struct notebook *nb);                  /* a new home is ready */
/* These return what debugger_message() returns. */
uint64_t debugger_gone(struct notebook *nb, uint32_t worker); /* it has ended, or is lost */
uint64_t debugger_tick(struct notebook *nb);
/* For an interrupt: all are told to go on, without breakpoints until the next cell. */
uint64_t debugger_interrupt(struct notebook *nb);
uint64_t debugger_due(const struct notebook *nb);
bool debugger_is_stopped(const struct notebook *nb, uint32_t worker); /* at a breakpoint */
bool debugger_stops(const struct notebook *nb); /* so time limits are suspended */
/* These ranks will get the RUN of this cell. */
void debugger_cell(struct notebook *nb, const struct group *g, const struct ranks *to,
                   uint64_t cell, struct slice text);
/* `%ranks debug`; rank: "2" of `-r 2`, NULL for `--continue all`. -1: there is no debugger, no such
 * rank, or nothing is stopped. */
MUST_USE int debugger_command(struct notebook *nb, const char *rank, struct err *err);
void debugger_release(struct notebook *nb);

#endif
