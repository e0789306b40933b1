/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of a rank that leaves its GPUs: every event in every state. */
#include "kernel/group/parking.h"

#include <stddef.h>

#include "tests/unit/tap.h"

#define STATES (PARKING_RETURNS + 1)
#define EVENTS (PARKING_IS_LOST + 1)

int main(void)
{
    /* IDLE, WANTED, TOLD, IS_AWAY, IS_BACK, IS_LOST */
    static const enum parking next[STATES][EVENTS] = {
        [PARKING_NOT] = { PARKING_ASKED, PARKING_NOT, PARKING_NOT, PARKING_NOT, PARKING_NOT,
                          PARKING_NOT },
        [PARKING_ASKED] = { PARKING_ASKED, PARKING_NOT, PARKING_LEAVES, PARKING_ASKED,
                            PARKING_ASKED, PARKING_ASKED },
        [PARKING_LEAVES] = { PARKING_LEAVES, PARKING_LEAVES, PARKING_LEAVES, PARKING_AWAY,
                             PARKING_NOT, PARKING_NOT },
        [PARKING_AWAY] = { PARKING_AWAY, PARKING_RETURNS, PARKING_AWAY, PARKING_AWAY, PARKING_AWAY,
                           PARKING_AWAY },
        [PARKING_RETURNS] = { PARKING_RETURNS, PARKING_RETURNS, PARKING_RETURNS, PARKING_AWAY,
                              PARKING_NOT, PARKING_NOT },
    };

    for (int now = 0; now < STATES; now++)
        for (int event = 0; event < EVENTS; event++)
            is_int(parking_next((enum parking)now, (enum parking_event)event), next[now][event],
                   "state %d, event %d", now, event);
    for (int back = 0; back < 2; back++) {
        is_int(parking_result(back, parking_read("parked")), back ? PARKING_STAYED : PARKING_MOVED,
               "who is parked");
        is_int(parking_result(back, parking_read("running")), back ? PARKING_MOVED : PARKING_STAYED,
               "who runs");
        is_int(parking_result(back, parking_read("lost")), PARKING_LOST, "who is lost");
        is_int(parking_result(back, parking_read(NULL)), back ? PARKING_MOVED : PARKING_STAYED,
               "of whom nothing is said");
    }
    ok(parking_moves(PARKING_LEAVES) && parking_moves(PARKING_RETURNS) &&
           !parking_moves(PARKING_ASKED) && !parking_moves(PARKING_AWAY) &&
           !parking_moves(PARKING_NOT),
       "an agent moves those that leave or return");
    is_text(parking_text(PARKING_AWAY), "parked", "what people read");
    ok(!parking_text(PARKING_NOT) && !parking_text(PARKING_ASKED),
       "of those on their GPUs nothing");
    return plan_done();
}
