/* SPDX-License-Identifier: BSD-3-Clause */
/* meeting.h - agrees on the step of a cell in which all its ranks run the function of
 * cellspan.on_notice(). Knows no messages and no clock; notices.c sends what it decides.
 *
 * A rank whose count of steps was asked for begins no step after the next one. So the highest count
 * + 1 is a step that no rank has passed, and that all can reach: none waits before it for good,
 * also not in a collective. */
#ifndef KERNEL_CELL_MEETING_H
#define KERNEL_CELL_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum meeting_state {
    MEETING_NONE,
    MEETING_COUNTS, /* waits for the ranks' counts */
    MEETING_GOES,   /* ranks go on to `step` */
    MEETING_RUNS,   /* all run the function, there or between cells */
    MEETING_OFF,    /* they don't: `why` */
    MEETING_OVER    /* each has run it, or can't any more */
};

enum meeting_why { MEETING_FAILED, MEETING_LATE, MEETING_ENDED };

enum step_rank_state {
    AT_CELL,   /* the cell */
    AT_STEP,   /* it is in the step, and waits */
    HAS_ENDED, /* it has ended the cell well */
    HAS_RUN_IT,
    HAS_FAILED, /* the function has raised an exception */
    IS_GONE     /* it has died or failed */
};

struct step_rank {
    uint32_t worker;
    unsigned rank;
    enum step_rank_state state;
    bool counted;
    uint64_t steps;
};

struct step_meeting {
    struct step_rank *rank; /* owned, n of them */
    size_t n, room;
    enum meeting_state state;
    enum meeting_why why;
    bool between;     /* the function runs between cells */
    uint64_t step;    /* in which it runs otherwise */
    char *said;       /* owned: the first exception of the function; NULL: none */
    unsigned said_by; /* the rank */
};

#define MEETING_INIT { NULL, 0, 0, MEETING_NONE, MEETING_FAILED, false, 0, NULL, 0 }

void meeting_release(struct step_meeting *m); /* leaves an empty one */
/* Before it begins. -1: memory is out. */
MUST_USE int meeting_add(struct step_meeting *m, uint32_t worker, unsigned rank);
struct step_rank *meeting_rank(const struct step_meeting *m, uint32_t worker); /* NULL: none */
/* between: no rank runs a cell, so all run the function now. */
void meeting_begin(struct step_meeting *m, bool between);
void meeting_counted(struct step_meeting *m, uint32_t worker, uint64_t steps);
void meeting_there(struct step_meeting *m, uint32_t worker);
void meeting_ran(struct step_meeting *m, uint32_t worker);
void meeting_failed(struct step_meeting *m, uint32_t worker, struct slice error);
void meeting_ended(struct step_meeting *m, uint32_t worker,
                   bool well);             /* the cell; or it is dead */
void meeting_late(struct step_meeting *m); /* the time to meet is over */
/* Goes one state further, if it can: then the caller does what that state wants. */
bool meeting_next(struct step_meeting *m);
/* Appends what came of it, as part of a sentence; fn is the function's name. -1: memory is out. */
MUST_USE int meeting_words(const struct step_meeting *m, const char *fn, struct buf *out);

#endif
