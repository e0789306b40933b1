/* SPDX-License-Identifier: BSD-3-Clause */
/* parking.h - whether a rank has left its GPUs, so that others can use them (CELLSPAN_GPU_IDLE).
 * Pure. */
#ifndef KERNEL_GROUP_PARKING_H
#define KERNEL_GROUP_PARKING_H

#include <stdbool.h>

enum parking {
    PARKING_NOT,    /* it is on its GPUs, or has none */
    PARKING_ASKED,  /* it was asked whether it can leave them */
    PARKING_LEAVES, /* its agent was told to take it off them */
    PARKING_AWAY,   /* it is parked */
    PARKING_RETURNS /* its agent was told to bring it back */
};

enum parking_event {
    PARKING_IDLE,    /* it may leave */
    PARKING_WANTED,  /* a cell needs it */
    PARKING_TOLD,    /* it can leave, and its agent was told so */
    PARKING_IS_AWAY, /* so says its agent */
    PARKING_IS_BACK, /* so says its agent; or that it has never left */
    PARKING_IS_LOST, /* so says its agent: the process must end */
};

/* The next state. An event that has no effect leaves it as it is. */
enum parking parking_next(enum parking now, enum parking_event event);
/* What an agent says of a rank, "parked", "running" or "lost"; NULL: nothing, for it could do
 * nothing.
 */
enum parking_event parking_read(const char *state);
/* What has come of a move, which was to bring ranks back, or to take them off their GPUs. */
enum parking_result { PARKING_MOVED, PARKING_STAYED, PARKING_LOST };
enum parking_result parking_result(bool back, enum parking_event said);
/* Does its agent move it now? Until it answers, nothing else may be done with the rank's GPUs. */
bool parking_moves(enum parking now);
const char *parking_text(enum parking now); /* for people; NULL: as any other rank */

#endif
