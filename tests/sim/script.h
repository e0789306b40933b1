/* SPDX-License-Identifier: BSD-3-Clause */
/* script.h - what a simulated rank does: each line of the cell's text is a step. Pure.
 *
 *   print N [M] TEXT   N equal lines, M (N) in one message; {rank} stands for the rank's number
 *   sleep MS           nothing for a while
 *   hang               nothing, until it is interrupted or killed
 *   fail TEXT          RuntimeError: TEXT
 *   exit N             its process ends with that status
 *   agent exit         its agent ends, and everything on that node with it
 *   agent freeze       its agent's process stops
 *
 * `rank R: STEP` is only for that rank, `node I: STEP` only for those of agent I. Other lines are
 * ignored. */
#ifndef TESTS_SIM_SCRIPT_H
#define TESTS_SIM_SCRIPT_H

#include <stdint.h>

#include "base/slice.h"

enum step_kind {
    STEP_PRINT,
    STEP_SLEEP,
    STEP_HANG,
    STEP_FAIL,
    STEP_EXIT,
    STEP_LEAVE,
    STEP_FREEZE,
    STEP_END
};

struct step {
    enum step_kind kind;
    uint64_t n, m;     /* N, M; MS of sleep */
    struct slice text; /* borrowed */
};

/* Takes the next step of this rank off the script; STEP_END: there is none. */
struct step script_next(struct slice *script, unsigned rank, unsigned node);

#endif
