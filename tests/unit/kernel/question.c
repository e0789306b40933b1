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
    ok(logged(&w, "send TOLD 1") && sent(&w, "[]"),
       "where there are no ranks, home hears so at once");
    begin_two(&w);
    asks(&w, 1);
    ok(logged(&w, "send TOLD 1") && !times(&w, "PROBE"), "and where they run a cell");
    all_done(&w, 2, 3);
    asks(&w, 1);
    id = w.last.cell;
    ok(logged(&w, "send PROBE 2 3") && !times(&w, "TOLD"), "all that are idle are asked");
    answers(&w, 2, id, "ok");
    answers(&w, 3, id - 1, "ok");
    ok(!times(&w, "TOLD"), "each is waited for, by the number of the question");
    answers(&w, 3, id, "error");
    ok(logged(&w, "send TOLD 1") && sent(&w, "[[0,{\"names\":[\"x\"]}]]") && w.last.cell == 77,
       "home gets what they know");
    asks(&w, 0);
    ok(logged(&w, "send PROBE 2") && !times(&w, "PROBE 2 3"), "or rank 0 alone is");
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
    ok(!times(&w, "TOLD"), "an answer has a moment");
    pass(&w, NS_PER_MS);
    ok(logged(&w, "send INTERRUPT 3") && !times(&w, "INTERRUPT 2") && sent(&w, "[[0,"),
       "and no more");
    asks(&w, 1);
    next(&w, "%%distribute\npass");
    ok(in_order(&w, "send INTERRUPT 2 3", "send TOLD 1") &&
           in_order(&w, "send TOLD 1", "send CAPTURE 1"),
       "a cell ends it");
    provide(&w);
    all_done(&w, 2, 3);
    asks(&w, 1);
    next(&w, "1 + 1");
    ok(in_order(&w, "send TOLD 1", "send REQUEST 1"), "at home as well");
    world_close(&w);
}

static void ranks_follow_home(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, ON_TWO);
    provide(&w);
    ok(!times(&w, "FOLLOW"), "while nothing differs, nobody is told");
    all_done(&w, 2, 5);
    next(&w, "%%distribute -r 0,3\npass");
    captured(&w, SET_A);
    port(&w);
    ok(in_order(&w, "send FOLLOW 2 5", "send RUN 2"), "ranks are told before the cell comes");
    done(&w, 2, "ok", "", "");
    done(&w, 5, "ok", "", "");
    next(&w, ON_TWO);
    captured(&w, SET_A);
    port(&w);
    ok(logged(&w, "send FOLLOW 3 4"), "each once");
    all_done(&w, 2, 5);
    next(&w, ON_TWO);
    provide(&w);
    ok(logged(&w, "send FOLLOW 2 3 4 5"), "and again when it is as it was");
    world_close(&w);
}

int main(void)
{
    idle_ranks_are_asked();
    nobody_waits_for_long();
    ranks_follow_home();
    return plan_done();
}
