/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines that are away: what a cell that needs one says, and who no longer waits for it. */
#include <stdlib.h>

#include "kernel/cell/cell_runs.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define INTERRUPTED "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}"
#define UNTIL       "s; cellspan waits for it until "

/* Node 2 is shown as away after 10 s of silence, and will be lost after 2 minutes of it. */
static void away(struct world *w)
{
    w->node[2].number = 2;
    w->node[2].shown_away = true;
    w->node[2].heard_ns = w->now - 10 * NS_PER_S;
    w->node[2].until_ns = w->now + 110 * NS_PER_S;
    rank_events_away_changed(w->nb, 2);
    dispatch_up(w->nb, 2);
}

static void back(struct world *w)
{
    w->node[2].shown_away = false;
    rank_events_away_changed(w->nb, 2);
    dispatch_up(w->nb, 2);
}

/* Four ranks on two machines that have been idle for a while. */
static void open_later(struct world *w, struct clock *clock)
{
    setenv("TZ", "UTC", 1);
    open_two(w, clock);
    pass(w, 99 * NS_PER_S);
}

/* The same, and they run a cell. */
static void open_running(struct world *w, struct clock *clock)
{
    open_later(w, clock);
    run(w, "%%distribute\npass");
    provide(w);
    pass(w, NS_PER_S);
    buf_clear(&w->log);
}

static void a_cell_says_it(void)
{
    struct clock clock;
    struct world w;

    open_running(&w, &clock);
    away(&w);
    pass(&w, NS_PER_S);
    ok(logged(&w, "h2 (ranks 2-3) has been silent for 10 " UNTIL "12:0") &&
           times(&w, "(CELLSPAN_RESUME)") == 1,
       "a cell says which machine is away, since when, and until when it is waited for");
    pass(&w, 3 * NS_PER_S);
    ok(logged(&w, "ranks 2-3 away"), "the status shows it");
    buf_clear(&w.log);
    w.now += 20 * NS_PER_S;
    back(&w);
    pass(&w, NS_PER_S);
    ok(logged(&w, "h2 (ranks 2-3) is back after 34 s"), "it says when the machine is back");
    all_done(&w, 2, 5);
    ok(!w.nb->cells, "and ends");
    buf_clear(&w.log);
    away(&w);
    pass(&w, NS_PER_S);
    ok(!times(&w, "silent for"), "while no cell runs, nothing is said");
    world_close(&w);
}

static void one_that_does_not_need_it_says_nothing(void)
{
    struct clock clock;
    struct world w;

    open_later(&w, &clock);
    run(&w, "%%distribute -r 0-1\npass");
    provide(&w);
    away(&w);
    back(&w);
    pass(&w, NS_PER_S);
    ok(!times(&w, "silent for") && !times(&w, "is back"), "a cell on other machines says nothing");
    world_close(&w);
}

static void one_that_begins_says_it(void)
{
    struct clock clock;
    struct world w;

    open_later(&w, &clock);
    away(&w);
    run(&w, "%%distribute -r 0-1\npass");
    provide(&w);
    pass(&w, NS_PER_S);
    ok(logged(&w, "send RUN 3") && !times(&w, "silent for"), "a cell on other machines begins");
    all_done(&w, 2, 3);
    next(&w, "%%distribute -r 1-2\npass");
    provide(&w);
    pass(&w, NS_PER_S);
    ok(times(&w, "h2 (rank 2) has been silent for") == 1,
       "one that needs the machine says that it waits");
    world_close(&w);
}

static void a_second_interrupt_gives_it_up(void)
{
    struct clock clock;
    struct world w;

    open_running(&w, &clock);
    away(&w);
    dispatch_interrupt(w.nb);
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "h2 is away: the interrupt reaches its ranks when it is back; a second one gives "
                  "it up") &&
           !times(&w, "send QUIT"),
       "the interrupted cell waits for the machine, and says so");
    done(&w, 2, "error", INTERRUPTED, "");
    done(&w, 3, "error", INTERRUPTED, "");
    ok(w.nb->cells && !times(&w, "send QUIT"), "also when the other ranks have ended");
    dispatch_interrupt(w.nb);
    ok(times(&w, "send QUIT node 2\n") == 1, "a second interrupt gives it up");
    lost(&w, 2, "it was away");
    ok(is_over(&w, "KeyboardInterrupt"), "which ends the cell");
    world_close(&w);
}

static void so_does_the_grace_time(void)
{
    struct clock clock;
    struct world w;

    open_running(&w, &clock);
    away(&w);
    dispatch_interrupt(w.nb);
    for (unsigned k = 0; k < 9; k++)
        pass(&w, NS_PER_S);
    ok(!times(&w, "send QUIT"), "for the grace time it is waited for");
    for (unsigned k = 0; k < 4; k++)
        pass(&w, NS_PER_S);
    ok(times(&w, "send QUIT node 2\n") == 1, "and not longer");
    world_close(&w);
    open_running(&w, &clock);
    dispatch_interrupt(w.nb);
    for (unsigned k = 0; k < 13; k++)
        pass(&w, NS_PER_S);
    ok(logged(&w, "send KILL") && !times(&w, "send QUIT"), "ranks are killed");
    away(&w);
    ok(times(&w, "send QUIT node 2\n") == 1,
       "those of a machine that is away from then on are given up");
    world_close(&w);
}

static void it_is_named_first(void)
{
    struct clock clock;
    struct world w;

    open_running(&w, &clock);
    away(&w);
    buf_clear(&w.log);
    for (unsigned k = 0; k < 80; k++)
        pass(&w, NS_PER_S);
    ok(times(&w, "h2 (ranks 2-3) has been silent for") == 1,
       "after the time of the hang notice the machine is named once more");
    ok(!times(&w, "cellspan-agent may be stopped there"), "and not its agent");
    world_close(&w);
}

static void left_behind(void)
{
    struct clock clock;
    struct world w;

    open_later(&w, &clock);
    away(&w);
    run(&w, "%ranks stop");
    all_exited(&w, 2, 3);
    for (unsigned k = 0; k < 60 && !times(&w, "send QUIT"); k++)
        pass(&w, NS_PER_S);
    ok(times(&w, "send QUIT node 2\n") == 1 && !times(&w, "a driver or a file"),
       "%%ranks stop gives up a machine that stays away");
    world_close(&w);
}

int main(void)
{
    a_cell_says_it();
    one_that_does_not_need_it_says_nothing();
    one_that_begins_says_it();
    a_second_interrupt_gives_it_up();
    so_does_the_grace_time();
    it_is_named_first();
    left_behind();
    return plan_done();
}
