/* SPDX-License-Identifier: BSD-3-Clause */
/* may_begin.h - what may begin while cells run on ranks (a client's cell, a call), and the calls of
 * home (CALL) that wait until they may. */
#ifndef KERNEL_DISPATCH_MAY_BEGIN_H
#define KERNEL_DISPATCH_MAY_BEGIN_H

#include "kernel/notebook/notebook.h"

/* What wants to begin. */
enum begin_who {
    BEGIN_CELL_AT_HOME,  /* a client's cell, which needs no ranks */
    BEGIN_CELL_ON_RANKS, /* a client's cell */
    BEGIN_CALL,          /* a call of home */
};

enum begin_when {
    BEGIN_NONE_RUNS = 1, /* no cell runs on ranks */
    BEGIN_HOME_FREE = 2, /* home waits for none of the cells that run (CALL_ASYNC) */
    /* Cells run, and none of them begins, ends or has ranks of its own. What wants to begin names
     * ranks of the world as it is, and these are idle. */
    BEGIN_OVERLAPS = 4,
    BEGIN_NO_CELL_WAITS = 8, /* no client's cell waits for calls */
    BEGIN_UNCLAIMED = 16,    /* nothing that came before waits for the same ranks */
    BEGIN_STANDS_STILL = 32, /* nothing has begun or ended for a while */
};

/* Who begins when. All that a row names must hold. Each of the rows of `who` is enough. So at most
 * one of the cells that run on ranks is a client's: home executes, or waits for, no second one. */
#define BEGIN_RULES(X)                                                                             \
    X(BEGIN_CELL_AT_HOME, BEGIN_HOME_FREE)                                                         \
    X(BEGIN_CELL_ON_RANKS, BEGIN_NONE_RUNS)                                                        \
    X(BEGIN_CELL_ON_RANKS, BEGIN_HOME_FREE | BEGIN_OVERLAPS)                                       \
    X(BEGIN_CALL, BEGIN_NONE_RUNS | BEGIN_NO_CELL_WAITS)                                           \
    X(BEGIN_CALL, BEGIN_OVERLAPS | BEGIN_UNCLAIMED)                                                \
    X(BEGIN_CALL, BEGIN_OVERLAPS | BEGIN_STANDS_STILL)

/* Calls that are held back, to let others begin first; see may_begin.c. */
struct held_calls {
    uint64_t since_ns; /* some are, and nothing has begun or ended since then; 0: none is */
    unsigned releases; /* how often they began nevertheless */
};

/* Does a cell of a client wait only for calls? It goes before calls of threads, which may never
 * end. */
bool calls_client_waits(const struct notebook *nb);
/* How many of the cells that run keep this one from beginning: a call that waits, or
 * nb->calls.client. *first: the oldest of them; NULL: none. */
size_t cells_in_the_way(const struct notebook *nb, const struct cell *waits,
                        const struct cell **first);
/* May this cell of a client begin now? */
bool may_begin_now(const struct notebook *nb, struct request *r);

void calls_add(struct notebook *nb, const struct span *m);
/* Begins the first one that may begin. false: there is none. */
bool calls_begin(struct notebook *nb);
/* A cell has begun or ended: calls that are held back wait longer. */
void calls_moved(struct notebook *nb);
/* When calls_begin() may have work without an event. */
uint64_t calls_due(const struct notebook *nb);
void calls_interrupt(struct notebook *nb); /* those that wait: see async_is_interrupted() */
void calls_end(struct notebook *nb, uint64_t call); /* one that waits or runs */
/* Home is gone: calls that wait are dropped, and those that run send it no RETURN. */
void calls_drop(struct notebook *nb);
void calls_release(struct notebook *nb);
void calls_free(struct cell *list); /* with all cells of this list */

#endif
