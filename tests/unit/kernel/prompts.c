/* Prompts of ranks and of home: in which order they are shown, and when they leave the queue. */
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define HOLD (100 * NS_PER_MS)

static void asks(struct world *w, uint32_t worker, uint64_t id)
{
    struct span m = { .kind = SPAN_INPUT, .v[F_INPUT_ID].u64 = id };

    m.cell = w->nb->cell ? w->nb->cell->id : 0;
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
    ok(!times(&w, "ask"), "lower ranks have a moment to ask before");
    asks(&w, 2, 1);
    ok(times(&w, "ask") == 1 && logged(&w, "ask [0] name? "), "below rank 0 there is none");
    answer(&w);
    ok(logged(&w, "send INPUT_REPLY 2") && !times(&w, "ask"), "it may have another question");
    asks(&w, 2, 2);
    ok(logged(&w, "ask [0]"), "which comes before those of others");
    answer(&w);
    done(&w, 2, "ok", "", "");
    ok(logged(&w, "ask [1]") && !times(&w, "ask [3]"), "nobody waits for a rank that is done");
    answer(&w);
    ok(logged(&w, "send INPUT_REPLY 3"), "each gets its own answer");
    pass(&w, HOLD - 1);
    ok(!times(&w, "ask"), "ranks 1 and 2 may ask");
    pass(&w, 1);
    ok(logged(&w, "ask [3]"), "rank 3 does not wait for them for long");
    asks(&w, 3, 2);
    pass(&w, 10 * HOLD);
    ok(times(&w, "ask") == 1, "what is shown stays until it is answered");
    answer(&w);
    ok(in_order(&w, "send INPUT_REPLY 5", "ask [1]"), "then the lower rank comes");
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
    ok(times(&w, "ask") == 1, "prompts are taken back by their numbers");
    takes_back(&w, 2, 1);
    pass(&w, HOLD);
    ok(times(&w, "ask") == 2 && logged(&w, "ask [1]"),
       "the next is shown in place of one that is taken back");
    answer(&w);
    ok(logged(&w, "send INPUT_REPLY 3") && sent(&w, "Ada"), "and gets the answer");
    pass(&w, HOLD);
    buf_clear(&w.log);
    exited(&w, 4, 1, 9);
    answer(&w);
    ok(!times(&w, "INPUT_REPLY"), "a rank that died waits for none");
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
       "an interrupt ends all that wait");
    answer(&w);
    ok(!times(&w, "INPUT_REPLY"), "an answer comes too late");
    asks(&w, 3, 2);
    pass(&w, HOLD);
    ok(logged(&w, "send INTERRUPT 3") && !times(&w, "ask"),
       "who asks all the same is interrupted again");
    world_close(&w);
    begin_four(&w, &clock, ON_FOUR);
    asks(&w, 2, 1);
    done(&w, 3, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[]}", "");
    pass(&w, NS_PER_S);
    answer(&w);
    ok(!times(&w, "INPUT_REPLY"), "the failure of another rank does, too");
    world_close(&w);
}

static void labels_and_home(void)
{
    struct clock clock;
    struct world w;

    begin_four(&w, &clock, "%%distribute -n 4 -r 2\npass");
    asks(&w, 4, 1);
    ok(logged(&w, "ask name? "), "a rank that runs alone has no label, and waits for none");
    answer(&w);
    all_done(&w, 4, 4);
    next(&w, "input()");
    ok(w.last.cell, "home runs a cell");
    {
        struct span m = { .kind = SPAN_INPUT, .cell = w.last.cell, .v[F_INPUT_ID].u64 = 1 };
        const uint64_t cell = w.last.cell;

        m.v[F_INPUT_PROMPT].s = slice_text("home? ");
        say(&w, SPAN_WORKER_HOME, m);
        m.v[F_INPUT_ID].u64 = 2;
        m.v[F_INPUT_PROMPT].s = slice_text("thread? ");
        say(&w, SPAN_WORKER_HOME, m);
        ok(logged(&w, "ask home? ") && !times(&w, "ask thread? "),
           "of home's prompts, too, one is shown at a time");
        answer(&w);
        ok(in_order(&w, "send INPUT_REPLY 1", "ask thread? "), "then the next");
        replied(&w, cell, "ok", "{}");
        run(&w, "2");
        answer(&w);
        ok(!times(&w, "INPUT_REPLY"), "none is in the way of the next cell's");
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
    ok(!times(&w, "STACKS"), "while a line is waited for nobody looks where ranks are");
    answer(&w);
    pass(&w, 15 * NS_PER_S);
    ok(logged(&w, "send STACKS"), "afterwards somebody does");
    world_close(&w);
}

int main(void)
{
    in_the_order_of_ranks();
    who_leaves_the_queue();
    an_interrupt_empties_it();
    labels_and_home();
    a_prompt_is_no_hang();
    return plan_done();
}
