/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel/group/parking.h"

#include <stddef.h>
#include <string.h>

static const struct row {
    enum parking now;
    enum parking_event event;
    enum parking next;
} rows[] = {
    { PARKING_NOT, PARKING_IDLE, PARKING_ASKED },
    { PARKING_ASKED, PARKING_WANTED, PARKING_NOT },
    { PARKING_ASKED, PARKING_TOLD, PARKING_LEAVES },
    { PARKING_LEAVES, PARKING_IS_AWAY, PARKING_AWAY },
    { PARKING_LEAVES, PARKING_IS_BACK, PARKING_NOT },
    { PARKING_LEAVES, PARKING_IS_LOST, PARKING_NOT },
    { PARKING_AWAY, PARKING_WANTED, PARKING_RETURNS },
    { PARKING_RETURNS, PARKING_IS_AWAY, PARKING_AWAY },
    { PARKING_RETURNS, PARKING_IS_BACK, PARKING_NOT },
    { PARKING_RETURNS, PARKING_IS_LOST, PARKING_NOT },
};

enum parking parking_next(enum parking now, enum parking_event event)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].now == now && rows[i].event == event)
            return rows[i].next;
    return now;
}

enum parking_event parking_read(const char *state)
{
    if (state && strcmp(state, "parked") == 0)
        return PARKING_IS_AWAY;
    return state && strcmp(state, "lost") == 0 ? PARKING_IS_LOST : PARKING_IS_BACK;
}

enum parking_result parking_result(bool back, enum parking_event said)
{
    const enum parking_event wanted = back ? PARKING_IS_BACK : PARKING_IS_AWAY;

    return said == PARKING_IS_LOST ? PARKING_LOST : said == wanted ? PARKING_MOVED : PARKING_STAYED;
}

bool parking_moves(enum parking now)
{
    return now == PARKING_LEAVES || now == PARKING_RETURNS;
}

const char *parking_text(enum parking now)
{
    switch (now) {
    case PARKING_LEAVES:
        return "parking";
    case PARKING_AWAY:
        return "parked";
    case PARKING_RETURNS:
        return "returning";
    case PARKING_NOT:
    case PARKING_ASKED:
        break;
    }
    return NULL;
}
