/* SPDX-License-Identifier: BSD-3-Clause */
/* What home asks idle ranks, and what ranks are told about home before a cell. */
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define SET_A "{\"names\": [], \"home\": \"{\\\"env\\\":{\\\"A\\\":\\\"1\\\"}}\"}"

static void asks(struct world *w, uint64_t all)
{
    struct span m = { .kind = SPAN_ASK, .cell = 77 };

    m.v[F_ASK_WHAT].s = slice_text("have");
    m.v[F_ASK_CONTENT].s = slice_text("{\"names\":[\"x\"]}");
    m.v[F_ASK_ALL].u64 = all;
    buf_clear(&w->log);
    say(w, SPAN_WORKER_HOME, m);
}

static void answers(struct world *w, uint32_t worker, uint64_t id, const char *status)
{
    struct span m = { .kind = SPAN_PROBED, .cell = id };

    m.v[F_PROBED_STATUS].s = slice_text(status);
    m.v[F_PROBED_CONTENT].s = slice_text("{\"names\":[\"x\"]}");
    say(w, worker, m);
}

static void idle_ranks_are_asked(void)
{
    struct clock clock;
    struct world w;
    uint64_t id;

    home_open(&w, &clock);
    asks(&w, 1);
    ok(logged(&w, "send ASK_REPLY 1") && sent(&w, "[]"),
       "without ranks, home's question is answered at once with an empty list");
    begin_two(&w);
    asks(&w, 1);
    ok(logged(&w, "send ASK_REPLY 1") && !times(&w, "PROBE"),
       "while ranks run a cell, home's question is answered at once, and ranks are not asked");
    all_done(&w, 2, 3);
    asks(&w, 1);
    id = w.last.cell;
    ok(logged(&w, "send PROBE 2 3") && !times(&w, "ASK_REPLY"), "idle ranks are all asked");
    answers(&w, 2, id, "ok");
    answers(&w, 3, id - 1, "ok");
    ok(!times(&w, "ASK_REPLY"),
       "an answer to an earlier question is ignored, and the rank's answer is still waited for");
    answers(&w, 3, id, "error");
    ok(logged(&w, "send ASK_REPLY 1") && sent(&w, "[[0,{\"names\":[\"x\"]}]]") && w.last.cell == 77,
       "home gets the answers, without those of ranks that failed");
    asks(&w, 0);
    ok(logged(&w, "send PROBE 2") && !times(&w, "PROBE 2 3"),
       "a question for rank 0 is sent to rank 0 alone");
    world_close(&w);
}

static void nobody_waits_for_long(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    begin_two(&w);
    all_done(&w, 2, 3);
    asks(&w, 1);
    answers(&w, 2, w.last.cell, "ok");
    pass(&w, 299 * NS_PER_MS);
    ok(!times(&w, "ASK_REPLY"),
       "a rank that has not answered is waited for until 300 ms have passed");
    pass(&w, NS_PER_MS);
    ok(logged(&w, "send INTERRUPT 3") && !times(&w, "INTERRUPT 2") && sent(&w, "[[0,"),
       "after 300 ms that rank is interrupted, and home gets the other answers");
    asks(&w, 1);
    next(&w, "%%distribute\npass");
    ok(in_order(&w, "send INTERRUPT 2 3", "send ASK_REPLY 1") &&
           in_order(&w, "send ASK_REPLY 1", "send CAPTURE 1"),
       "a distributed cell ends the question at once, before it begins");
    provide(&w);
    all_done(&w, 2, 3);
    asks(&w, 1);
    next(&w, "1 + 1");
    ok(in_order(&w, "send ASK_REPLY 1", "send REQUEST 1"), "a cell at home ends the question, too");
    world_close(&w);
}

static void ranks_follow_home(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, ON_TWO);
    provide(&w);
    ok(!times(&w, "FOLLOW"), "if home's settings have not changed, ranks get no FOLLOW");
    all_done(&w, 2, 5);
    next(&w, "%%distribute -r 0,3\npass");
    captured(&w, SET_A);
    port(&w);
    ok(in_order(&w, "send FOLLOW 2 5", "send RUN 2"),
       "changed settings are sent to the cell's ranks before RUN");
    done(&w, 2, "ok", "", "");
    done(&w, 5, "ok", "", "");
    next(&w, ON_TWO);
    captured(&w, SET_A);
    port(&w);
    ok(logged(&w, "send FOLLOW 3 4"),
       "the next cell sends them only to ranks that have not got them");
    all_done(&w, 2, 5);
    next(&w, ON_TWO);
    provide(&w);
    ok(logged(&w, "send FOLLOW 2 3 4 5"), "when home's settings change back, all ranks are told");
    world_close(&w);
}

int main(void)
{
    idle_ranks_are_asked();
    nobody_waits_for_long();
    ranks_follow_home();
    return plan_done();
}
