/* SPDX-License-Identifier: BSD-3-Clause */
/* --wait: when a cell asks again for GPUs that others hold, when it goes on, and when it gives up.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define HELD  "{\"uuid\":\"GPU-1\",\"index\":0,\"leased_by\":\"ann (pid 7, since 14:03)\"}"
#define FREE  "{\"uuid\":\"GPU-1\",\"index\":0,\"leased_by\":null}"
#define AHEAD "\"queue\":{\"ahead\":1,\"why\":\"\"}"

static void open_held(struct world *w, struct clock *clock)
{
    home_open(w, clock);
    w->gpus[0] = "{\"gpus\":[" HELD "]," AHEAD "}";
}

static void it_asks_once_a_second_and_goes_on(void)
{
    struct clock clock;
    struct world w;

    open_held(&w, &clock);
    run(&w, "%%distribute -n 1 --wait 10min\npass");
    pass(&w, 1);
    ok(logged(&w, "waits for 1 GPU: 2nd in the queue, for at most 10 min (") &&
           logged(&w, "held: GPU 0 by ann (pid 7, since 14:03)") && w.nb->cells &&
           !times(&w, "send START"),
       "a line says what it waits for, and who has that");
    buf_clear(&w.log);
    for (unsigned quarter = 0; quarter < 40; quarter++)
        pass(&w, NS_PER_S / 4);
    ok(times(&w, "send GPUS") >= 5 && times(&w, "send GPUS") <= 10,
       "at most once a second it asks: %u times in ten", times(&w, "send GPUS"));
    ok(!times(&w, "for at most"), "the line is not repeated");
    for (unsigned minute = 0; minute < 5; minute++)
        pass(&w, 60 * NS_PER_S);
    ok(w.nb->cells && !times(&w, "RankNotStarted"), "the time for a start is not that of a wait");
    w.gpus[0] = "{\"gpus\":[" FREE "]," AHEAD "}";
    buf_clear(&w.log);
    pass(&w, 2 * NS_PER_S);
    ok(times(&w, "send START") == 1, "when it is free, the rank starts");
    provide(&w);
    all_ready(&w, 2, 2);
    all_done(&w, 2, 2);
    world_close(&w);
}

static void it_gives_up(void)
{
    struct clock clock;
    struct world w;

    open_held(&w, &clock);
    run(&w, "%%distribute -n 1 --wait 5s\npass");
    pass(&w, 4 * NS_PER_S);
    ok(w.nb->cells != NULL, "it waits");
    pass(&w, 2 * NS_PER_S);
    ok(is_over(&w, "--wait 5 s is over, and the cell still waits for 1 GPU: 2nd in the queue (") &&
           logged(&w, "held: GPU 0 by ann (pid 7, since 14:03)"),
       "at the end of the time it says what was held by whom");
    w.gpus[0] = "{\"gpus\":[" FREE "]}";
    next(&w, "%%distribute -n 1 --wait 5s\npass");
    ok(times(&w, "send START") == 1 && !times(&w, "in the queue"), "the next one has no need to");
    world_close(&w);
}

static void what_nobody_could_have_is_an_error(void)
{
    struct clock clock;
    struct world w;

    open_held(&w, &clock);
    run(&w, "%%distribute -n 2 --wait 5s\npass");
    ok(is_over(&w, "-n 2: there are 0 GPUs"), "more than the machine has");
    w.gpus[0] = "{\"gpus\":[],\"why\":\"no driver\"}";
    next(&w, "%%distribute --wait 5s\npass");
    ok(is_over(&w, "--wait: there is no GPU on ") && logged(&w, "no driver"), "none at all");
    world_close(&w);
}

int main(void)
{
    it_asks_once_a_second_and_goes_on();
    it_gives_up();
    what_nobody_could_have_is_an_error();
    return plan_done();
}
