/* SPDX-License-Identifier: BSD-3-Clause */
/* Prompts of ranks and of home: in which order they are shown, and when they leave the queue. */
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define HOLD (100 * NS_PER_MS)

static void asks(struct world *w, uint32_t worker, uint64_t id)
{
    struct span m = { .kind = SPAN_INPUT, .v[F_INPUT_ID].u64 = id };

    m.cell = w->nb->cells ? w->nb->cells->id : 0;
    m.v[F_INPUT_PROMPT].s = slice_text("name? ");
    say(w, worker, m);
}

static void takes_back(struct world *w, uint32_t worker, uint64_t id)
{
    say(w, worker,
        (struct span){ .kind = SPAN_INPUT, .v[F_INPUT_ID].u64 = id, .v[F_INPUT_OVER].u64 = 1 });
}

static void answer(struct world *w)
{
    buf_clear(&w->log);
    ask(w, "input_reply", "{\"value\":\"Ada\"}");
}

/* Ranks 0 to 3, workers 2 to 5, in the midst of a cell; the log is empty. */
static void begin_four(struct world *w, struct clock *clock, const char *code)
{
    home_open(w, clock);
    run(w, code);
    provide(w);
    all_ready(w, 2, 5);
    buf_clear(&w->log);
}

#define ON_FOUR "%%distribute -n 4\npass"

static void in_the_order_of_ranks(void)
{
    struct clock clock;
    struct world w;

    begin_four(&w, &clock, ON_FOUR);
    asks(&w, 5, 1);
    asks(&w, 3, 1);
    ok(!times(&w, "ask"), "a prompt of rank 3 waits, since lower ranks may ask first");
    asks(&w, 2, 1);
    ok(times(&w, "ask") == 1 && logged(&w, "ask [0] name? "),
       "a prompt of rank 0 is shown at once");
    answer(&w);
    ok(logged(&w, "send INPUT_REPLY 2") && !times(&w, "ask"),
       "after the answer, the next prompt waits, since rank 0 may ask again");
    asks(&w, 2, 2);
    ok(logged(&w, "ask [0]"), "a second prompt of rank 0 comes before those of other ranks");
    answer(&w);
    done(&w, 2, "ok", "", "");
    ok(logged(&w, "ask [1]") && !times(&w, "ask [3]"),
       "when rank 0 is done, the prompt of the next rank is shown");
    answer(&w);
    ok(logged(&w, "send INPUT_REPLY 3"), "the answer goes to the rank whose prompt was shown");
    pass(&w, HOLD - 1);
    ok(!times(&w, "ask"), "the prompt of rank 3 waits, since ranks 1 and 2 may still ask");
    pass(&w, 1);
    ok(logged(&w, "ask [3]"), "after 100 ms the prompt of rank 3 is shown");
    asks(&w, 3, 2);
    pass(&w, 10 * HOLD);
    ok(times(&w, "ask") == 1, "a shown prompt is not replaced by that of a lower rank");
    answer(&w);
    ok(in_order(&w, "send INPUT_REPLY 5", "ask [1]"),
       "after the answer, the lower rank's prompt is shown");
    world_close(&w);
}

/* What was asked may not have been sent yet. */
static void a_prompt_that_is_over_is_not_asked_later(void)
{
    struct clock clock;
    struct world w;

    begin_four(&w, &clock, ON_FOUR);
    asks(&w, 2, 1);
    ok(!times(&w, "prompt over"), "a prompt is shown");
    takes_back(&w, 2, 1);
    is_int(times(&w, "prompt over"), 1, "its process takes it back");
    asks(&w, 2, 2);
    exited(&w, 2, 1, 9);
    is_int(times(&w, "prompt over"), 2, "or ends");
    world_close(&w);
    begin_four(&w, &clock, ON_FOUR);
    asks(&w, 2, 1);
    asks(&w, 3, 1);
    dispatch_interrupt(w.nb);
    all_done(&w, 2, 5);
    is_int(times(&w, "prompt over"), 1,
           "or the cell is interrupted; who was not shown is not told");
    world_close(&w);
}

static void who_leaves_the_queue(void)
{
    struct clock clock;
    struct world w;

    begin_four(&w, &clock, ON_FOUR);
    asks(&w, 2, 1);
    asks(&w, 3, 1);
    asks(&w, 3, 2);
    asks(&w, 4, 7);
    takes_back(&w, 3, 1);
    takes_back(&w, 2, 7);
    ok(times(&w, "ask") == 1,
       "a prompt that is not shown yet, or an unknown number, can be taken back without effect on the shown one");
    takes_back(&w, 2, 1);
    pass(&w, HOLD);
    ok(times(&w, "ask") == 2 && logged(&w, "ask [1]"),
       "when the shown prompt is taken back, the next one is shown");
    answer(&w);
    ok(logged(&w, "send INPUT_REPLY 3") && sent(&w, "Ada"),
       "the answer goes to the rank whose prompt is shown now");
    pass(&w, HOLD);
    buf_clear(&w.log);
    exited(&w, 4, 1, 9);
    answer(&w);
    ok(!times(&w, "INPUT_REPLY"), "the prompt of a rank that died is removed");
    world_close(&w);
}

static void an_interrupt_empties_it(void)
{
    struct clock clock;
    struct world w;

    begin_four(&w, &clock, ON_FOUR);
    asks(&w, 2, 1);
    asks(&w, 3, 1);
    buf_clear(&w.log);
    ask(&w, "interrupt_request", "{}");
    pass(&w, HOLD);
    ok(logged(&w, "send INTERRUPT 2 3 4 5") && !times(&w, "ask"),
       "an interrupt is sent to all ranks, and no waiting prompt is shown any more");
    answer(&w);
    ok(!times(&w, "INPUT_REPLY"), "an answer after the interrupt is sent to nobody");
    asks(&w, 3, 2);
    pass(&w, HOLD);
    ok(logged(&w, "send INTERRUPT 3") && !times(&w, "ask"),
       "a rank that asks after the interrupt is interrupted again");
    world_close(&w);
    begin_four(&w, &clock, ON_FOUR);
    asks(&w, 2, 1);
    done(&w, 3, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[]}", "");
    pass(&w, NS_PER_S);
    answer(&w);
    ok(!times(&w, "INPUT_REPLY"), "the failure of another rank removes waiting prompts, too");
    world_close(&w);
}

static void labels_and_home(void)
{
    struct clock clock;
    struct world w;

    begin_four(&w, &clock, "%%distribute -n 4 -r 2\npass");
    asks(&w, 4, 1);
    ok(logged(&w, "ask name? "),
       "the prompt of a rank that runs the cell alone is shown at once, without a label");
    answer(&w);
    all_done(&w, 4, 4);
    next(&w, "input()");
    ok(w.last.cell, "home runs a cell (the test's condition)");
    {
        struct span m = { .kind = SPAN_INPUT, .cell = w.last.cell, .v[F_INPUT_ID].u64 = 1 };
        const uint64_t cell = w.last.cell;

        m.v[F_INPUT_PROMPT].s = slice_text("home? ");
        say(&w, SPAN_WORKER_HOME, m);
        m.v[F_INPUT_ID].u64 = 2;
        m.v[F_INPUT_PROMPT].s = slice_text("thread? ");
        say(&w, SPAN_WORKER_HOME, m);
        ok(logged(&w, "ask home? ") && !times(&w, "ask thread? "),
           "of two prompts of home, only the first is shown");
        answer(&w);
        ok(in_order(&w, "send INPUT_REPLY 1", "ask thread? "),
           "after its answer, home's second prompt is shown");
        replied(&w, cell, "ok", "{}");
        run(&w, "2");
        answer(&w);
        ok(!times(&w, "INPUT_REPLY"),
           "home's prompts that are left do not take an answer in the next cell");
    }
    world_close(&w);
}

static void a_prompt_is_no_hang(void)
{
    struct clock clock;
    struct world w;

    begin_four(&w, &clock, ON_FOUR);
    asks(&w, 2, 1);
    for (unsigned k = 0; k < 20; k++)
        pass(&w, 15 * NS_PER_S);
    ok(!times(&w, "STACKS"),
       "while a prompt waits for its line, ranks are not asked where they hang");
    answer(&w);
    pass(&w, 15 * NS_PER_S);
    ok(logged(&w, "send STACKS"), "after the answer, ranks are asked where they are");
    world_close(&w);
}

static void a_machine_that_takes_nothing(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, ON_FOUR);
    provide(&w);
    buf_clear(&w.log);
    w.node[1].full = true;
    asks(&w, 2, 1);
    pass(&w, NS_PER_S);
    ok(!times(&w, "ask"), "a rank is not asked for a line that could not be sent to it");
    asks(&w, 5, 1);
    pass(&w, HOLD);
    ok(logged(&w, "ask [3] name?") && times(&w, "ask") == 1, "ranks on other machines are");
    answer(&w);
    ok(logged(&w, "send INPUT_REPLY 5"), "and get their lines");
    pass(&w, NS_PER_S);
    ok(!times(&w, "ask"), "the first one waits still");
    w.node[1].full = false;
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "ask [0] name?"), "until there is room again");
    answer(&w);
    ok(logged(&w, "send INPUT_REPLY 2"), "and gets its line");
    world_close(&w);
}

int main(void)
{
    in_the_order_of_ranks();
    a_prompt_that_is_over_is_not_asked_later();
    who_leaves_the_queue();
    an_interrupt_empties_it();
    labels_and_home();
    a_prompt_is_no_hang();
    a_machine_that_takes_nothing();
    return plan_done();
}
