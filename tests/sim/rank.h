/* SPDX-License-Identifier: BSD-3-Clause */
/* rank.h - a simulated rank: it is ready at once, runs a cell's script, prints within its window,
 * and dies when told. */
#ifndef TESTS_SIM_RANK_H
#define TESTS_SIM_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop/loop.h"
#include "protocol/span.h"
#include "tests/sim/script.h"

struct agent;

struct rank {
    struct agent *agent; /* borrowed */
    uint32_t worker;     /* 0: it has no process */
    unsigned number;
    uint64_t cell;       /* that it runs; 0: none */
    char *code;          /* owned: the cell's text */
    struct slice script; /* what is left of it */
    struct step step;    /* that it is in: PRINT with `n` lines to go, SLEEP, HANG */
    uint64_t out;        /* bytes on the way that were not given back */
    struct watch *timer;
};

void rank_start(struct rank *r, struct agent *a, uint32_t worker, unsigned number);
void rank_run(struct rank *r, const struct span *m);
void rank_interrupt(struct rank *r, uint64_t cell);
void rank_credit(struct rank *r, uint64_t bytes);
/* EXITED: by that signal, or with that status when there is none. */
void rank_exit(struct rank *r, int signo, unsigned status);
void rank_done(struct rank *r, uint64_t cell, const char *ename, struct slice evalue);
void rank_release(struct rank *r);

#endif
