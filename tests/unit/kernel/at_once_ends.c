/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of threads that run at the same time: how one of them ends, fails or is interrupted while
 * the others go on. */
#include "tests/unit/kernel/thread_calls.h"
#include "tests/unit/tap.h"

static void a_rank_dies(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    exited(&w, 2, 1, 9);
    ok(!running(&w, 7) && running(&w, 8) && sent(&w, "RankDied"),
       "a rank's death ends the call that runs on it, and no other");
    call_on(&w, 9, "1");
    ok(running(&w, 9) && !times(&w, "send START"), "calls on other ranks begin as before");
    call_on(&w, 10, "0");
    ends(&w, 9, 3);
    call_on(&w, 11, "1");
    ok(!running(&w, 10) && !running(&w, 11),
       "one that has to start the rank waits until the others end, and holds back what follows");
    ends(&w, 8, 4);
    ends(&w, 8, 5);
    ok(running(&w, 10) && logged(&w, "send START"), "then it begins");
    world_close(&w);
    open_with_two(&w, &clock);
    lost(&w, 2, "the cable is out");
    ok(running(&w, 7) && !running(&w, 8), "a lost machine ends the calls that run there");
    world_close(&w);
}

static void asks(struct world *w, uint64_t call, uint32_t worker)
{
    struct span m = { .kind = SPAN_INPUT, .cell = running(w, call)->id };

    m.v[F_INPUT_ID].u64 = 1;
    m.v[F_INPUT_PROMPT].s = slice_text("name? ");
    say(w, worker, m);
}

static void ends_call(struct world *w, uint64_t number)
{
    struct span m = { .kind = SPAN_CALL, .cell = 1 };

    m.v[F_CALL_FLAGS].u64 = CALL_INTERRUPT;
    m.v[F_CALL_CALL].u64 = number;
    say(w, SPAN_WORKER_HOME, m);
}

static void prompts_stay(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    asks(&w, 7, 2);
    asks(&w, 8, 4);
    ok(logged(&w, "ask [0] name? "), "the questions of several calls have labels");
    ends_call(&w, 7);
    ok(logged(&w, "send INTERRUPT 2\n") && !times(&w, "send INTERRUPT 4"),
       "an interrupt of one call reaches its ranks alone");
    pass(&w, 200 * NS_PER_MS);
    ok(logged(&w, "ask [2] name? "), "and the questions of others stay");
    world_close(&w);
}

/* The node has no connections to name. */
static void says_ends(struct world *w, uint64_t call, unsigned node)
{
    const struct span m = { .kind = SPAN_CONNECTIONS, .cell = running(w, call)->id };

    dispatch_message(w->nb, node, SPAN_WORKER_NONE, &m);
}

static void connections_stay(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    ends_call(&w, 8);
    pass(&w, 2 * NS_PER_S);
    ok(times(&w, "send CUT_RANKS") == 2,
       "nodes are asked for the connections of a call that hangs");
    says_ends(&w, 8, 1);
    says_ends(&w, 8, 2);
    ok(times(&w, "send CUT_RANKS 4 5\n") == 2 && times(&w, "send CUT_RANKS 3\n") == 2 &&
           !times(&w, "CUT_RANKS 2"),
       "connections of ranks that run another call are not cut, those of idle ranks are");
    world_close(&w);
    open_with_two(&w, &clock);
    ends_call(&w, 7);
    ends_call(&w, 8);
    pass(&w, 2 * NS_PER_S);
    says_ends(&w, 7, 1);
    says_ends(&w, 7, 2);
    ok(times(&w, "send CUT_RANKS 2 3\n") >= 2 && times(&w, "send CUT_RANKS 4 5\n") >= 2,
       "if the other call is stopped, too, its ranks are among them: both may wait for each other");
    world_close(&w);
}

static void interrupts(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 1") && !times(&w, "send INTERRUPT 2"),
       "an interrupt is for home's cell, while it runs");
    dispatch_interrupt(w.nb);
    ok(!times(&w, "send INTERRUPT 2"), "also a second one, if another cell has made the calls");
    w.nb->cells->from.asker = w.nb->home.executing->cell; /* a thread of this cell makes the call */
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 2\n") && !times(&w, "send INTERRUPT 4"),
       "but it is for those of this cell's own threads");
    buf_clear(&w.log);
    end_at_home(&w);
    run(&w, "pass");
    w.nb->cells->from.next->from.asker = w.nb->home.executing->cell;
    dispatch_interrupt(w.nb);
    ok(!times(&w, "send INTERRUPT 4"), "which the first one spares");
    end_at_home(&w);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 4 5\n"), "afterwards it is for all calls that run");
    world_close(&w);
    open_with_two(&w, &clock);
    call_on(&w, 9, "0");
    call_on(&w, 10, "2");
    w.nb->calls.first->from.asker = w.nb->home.executing->cell;
    w.nb->calls.first->from.next->from.asker = 4711;
    dispatch_interrupt(w.nb);
    ok(w.nb->calls.first->from.call == 10 && !w.nb->calls.first->from.next,
       "of the calls that wait it ends those of this cell's threads, and none of other threads");
    end_at_home(&w);
    dispatch_interrupt(w.nb);
    ok(!w.nb->calls.first && logged(&w, "send INTERRUPT 4 5\n"),
       "while home runs nothing, all that wait and run");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "%%distribute -r 1\npass");
    call_on(&w, 9, "0");
    w.nb->calls.first->from.asker = 4711;
    dispatch_interrupt(w.nb);
    ok(w.nb->calls.first && !times(&w, "send INTERRUPT 2") && cells(&w) == 2,
       "an interrupt of a cell on ranks leaves calls of threads that wait");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "%ranks stop");
    ok(logged(&w, "send INTERRUPT 2\n") && logged(&w, "send INTERRUPT 4 5\n"),
       "%%ranks stop ends all of them");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "%ranks stop -r 2-3");
    ok(logged(&w, "send INTERRUPT 4 5\n") && !times(&w, "send INTERRUPT 2"),
       "for some ranks, it ends the calls that run on these alone");
    world_close(&w);
}

/* A widget of rank 1 runs a callback. */
static void begin_callback(struct world *w)
{
    struct span m = { .kind = SPAN_PUBLISH };

    m.v[F_PUBLISH_TYPE].s = slice_text("comm_open");
    m.v[F_PUBLISH_CONTENT].s = slice_text(
        "{\"comm_id\":\"c\",\"target_name\":\"jupyter.widget\",\"data\":{}}");
    say(w, 3, m);
    ask(w, "comm_msg", "{\"comm_id\":\"c\",\"data\":{\"method\":\"custom\"}}");
}

static void each_has_its_own_times(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    begin_callback(&w);
    call_on(&w, 9, "1");
    buf_clear(&w.log);
    pass(&w, 1);
    pass(&w, 3 * NS_PER_S);
    ok(!times(&w, "send INTERRUPT 3\n"), "a call waits a while for a callback of a widget");
    pass(&w, 3 * NS_PER_S);
    ok(times(&w, "send INTERRUPT 3\n") == 1, "also if it is not the oldest one");
    world_close(&w);
    open_with_two(&w, &clock);
    call(&w, 9, "%%distribute -r 1 --timeout 5s", "{\"names\": []}");
    ok(w.due <= 5 * NS_PER_S, "the next thing to do may be that of any call");
    pass(&w, 5 * NS_PER_S);
    ok(logged(&w, "send INTERRUPT 3\n") && !times(&w, "send INTERRUPT 2"),
       "each has a time limit of its own");
    world_close(&w);
}

/* The ranks of the call that began last wait in a collective. */
static void they_hang(struct world *w, uint32_t first, uint32_t last)
{
    static const char in_torch[] =
        "Current thread 0x02 (most recent call first):\n"
        "  File \"/x/torch/distributed/c10d.py\", line 2810 in all_reduce\n"
        "  File \"<ipython-input-1-0123456789ab>\", line 5 in <module>\n";

    for (unsigned k = 0; k < 10; k++) {
        pass(w, 15 * NS_PER_S);
        for (uint32_t worker = first; worker <= last; worker++)
            stack(w, worker, w->last.cell, in_torch);
    }
}

static void a_call_hangs(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    they_hang(&w, 4, 5);
    ok(logged(&w, "ranks 0-1 don't run this cell, some of them run other cells"),
       "the notice about a call that hangs says that others run");
    world_close(&w);
    open_four(&w, &clock);
    call_on(&w, 7, "0");
    port(&w);
    call_on(&w, 8, "1-3");
    they_hang(&w, 3, 5);
    ok(logged(&w, "rank 0 does not run this cell, but another one"), "also of one rank");
    world_close(&w);
}

static void home_dies(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    call_on(&w, 9, "0");
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    ok(running(&w, 7)->bad && running(&w, 8)->bad && !w.nb->calls.first,
       "when home dies, all calls end: those that run and those that wait");
    buf_clear(&w.log);
    ends(&w, 7, 2);
    ends(&w, 8, 4);
    ends(&w, 8, 5);
    ok(!w.nb->cells && !times(&w, "send RETURN"), "and nobody gets their values");
    world_close(&w);
}

int main(void)
{
    a_rank_dies();
    prompts_stay();
    connections_stay();
    interrupts();
    each_has_its_own_times();
    a_call_hangs();
    home_dies();
    return plan_done();
}
