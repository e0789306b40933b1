/* SPDX-License-Identifier: BSD-3-Clause */
/* What home and ranks send each other by HAND while ranks run a call. */
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

static void hands(struct world *w, uint32_t worker, uint64_t cell, uint64_t to, const char *text)
{
    struct slice part = slice_text(text);
    struct span m = { .kind = SPAN_HAND, .cell = cell, .v[F_HAND_TO].u64 = to };

    m.v[F_HAND_LOAD].list = (struct span_list){ .item = &part, .n = 1 };
    say(w, worker, m);
}

/* Home's cell has called, and both ranks run the call. */
static void begin_call(struct world *w, struct clock *clock)
{
    home_open(w, clock);
    run(w, "cellspan.map(f, xs)");
    called(w, 1, "%%distribute -n 2\nwork()");
    provide(w);
    all_ready(w, 2, 3);
    buf_clear(&w->log);
}

static void each_gets_what_is_for_it(void)
{
    struct clock clock;
    struct world w;
    uint64_t cell;

    begin_call(&w, &clock);
    cell = w.nb->cells->id;
    hands(&w, 3, cell, 0, "ready");
    ok(logged(&w, "send HANDED 1") && sent(&w, "ready") && w.last.cell == cell,
       "what a rank hands on reaches home");
    buf_clear(&w.log);
    hands(&w, SPAN_WORKER_HOME, cell, 1, "items");
    ok(logged(&w, "send HANDED 3") && !times(&w, "HANDED 2"),
       "a message from home reaches only the rank that it names");
    buf_clear(&w.log);
    hands(&w, SPAN_WORKER_HOME, cell, 2, "items");
    hands(&w, SPAN_WORKER_HOME, cell, UINT64_MAX, "items");
    hands(&w, SPAN_WORKER_HOME, cell + 1, 1, "items");
    hands(&w, 2, cell + 1, 0, "ready");
    ok(!times(&w, "HANDED"), "a message to no rank or of another cell is dropped");
    done(&w, 3, "ok", "", "");
    buf_clear(&w.log);
    hands(&w, SPAN_WORKER_HOME, cell, 1, "items");
    hands(&w, 3, cell, 0, "ready");
    ok(!times(&w, "HANDED"), "a message from or to a rank that has ended is dropped");
    done(&w, 2, "ok", "", "");
    hands(&w, SPAN_WORKER_HOME, cell, 0, "items");
    ok(!times(&w, "HANDED"), "a message after the cell is dropped");
    world_close(&w);
}

static void a_clients_cell_hands_nothing(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    begin_two(&w);
    buf_clear(&w.log);
    hands(&w, 2, w.nb->cells->id, 0, "ready");
    ok(!times(&w, "HANDED"), "if home waits for no call, ranks' messages are dropped");
    world_close(&w);
}

static void an_interrupt_is_for_home_too(void)
{
    struct clock clock;
    struct world w;

    begin_call(&w, &clock);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 2 3") && !times(&w, "INTERRUPT 1"),
       "an interrupt is sent to the ranks first");
    world_close(&w);
    begin_call(&w, &clock);
    hands(&w, 2, w.nb->cells->id, 0, "ready");
    dispatch_interrupt(w.nb);
    ok(in_order(&w, "send INTERRUPT 2 3", "send INTERRUPT 1"),
       "home is interrupted when it serves the ranks' messages");
    world_close(&w);
}

static void for_any(struct world *w, uint64_t flags, const char *text)
{
    struct slice part = slice_text(text);
    struct span m = { .kind = SPAN_HAND, .cell = w->nb->cells->id };

    m.v[F_HAND_FLAGS].u64 = HAND_ANY | flags;
    m.v[F_HAND_LOAD].list = (struct span_list){ .item = &part, .n = text ? 1 : 0 };
    say(w, SPAN_WORKER_HOME, m);
}

static void takes(struct world *w, uint32_t worker, uint64_t n)
{
    struct span m = { .kind = SPAN_HAND, .cell = w->nb->cells->id, .v[F_HAND_TAKES].u64 = n };

    say(w, worker, m);
}

static void finishes(struct world *w, uint32_t worker, uint64_t n)
{
    struct span m = { .kind = SPAN_HAND, .cell = w->nb->cells->id };

    m.v[F_HAND_FLAGS].u64 = HAND_FINISHED;
    m.v[F_HAND_TAKES].u64 = n;
    say(w, worker, m);
}

static void loads_go_to_whoever_takes_them(void)
{
    struct clock clock;
    struct world w;

    begin_call(&w, &clock);
    for_any(&w, 0, "first");
    for_any(&w, 0, "second");
    ok(!times(&w, "HANDED"), "a load for any rank waits until one takes it");
    takes(&w, 3, 1);
    ok(logged(&w, "send HANDED 3") && sent(&w, "first") && times(&w, "HANDED") == 1,
       "the oldest load goes to the rank that takes one; home hears nothing of that");
    takes(&w, 2, 2);
    ok(logged(&w, "send HANDED 2") && sent(&w, "second"), "the next load to the next rank");
    takes(&w, 3, 1);
    buf_clear(&w.log);
    for_any(&w, 0, "third");
    ok(!times(&w, "HANDED"), "a new load waits for a rank that becomes free");
    finishes(&w, 3, 1);
    ok(times(&w, "HANDED 3") == 1 && !times(&w, "HANDED 2"), "which gets it");
    for_any(&w, 0, "fourth");
    for_any(&w, 0, "fifth");
    ok(times(&w, "HANDED") == 1, "so do as many loads as there are ranks");
    for_any(&w, 0, "sixth");
    ok(times(&w, "HANDED 2") == 1 && times(&w, "HANDED") == 2,
       "of more loads, one goes to the busy rank that has waited longest");
    world_close(&w);
}

static void parts_of_a_load_stay_together(void)
{
    struct clock clock;
    struct world w;

    begin_call(&w, &clock);
    takes(&w, 2, 1);
    for_any(&w, HAND_MORE, "half");
    ok(!times(&w, "HANDED"), "half a load is sent to nobody");
    takes(&w, 3, 1);
    for_any(&w, 0, "the rest");
    ok(times(&w, "HANDED 2") == 2 && !times(&w, "HANDED 3") && sent(&w, "the rest"),
       "all of it goes to one rank");
    world_close(&w);
}

static void a_rank_with_a_load_of_its_own_is_not_free(void)
{
    struct clock clock;
    struct world w;

    begin_call(&w, &clock);
    takes(&w, 3, 1);
    takes(&w, 2, 1);
    hands(&w, SPAN_WORKER_HOME, w.nb->cells->id, 1, "its own");
    ok(logged(&w, "send HANDED 3"), "a load for one rank is sent at once");
    buf_clear(&w.log);
    for_any(&w, 0, "first");
    ok(logged(&w, "send HANDED 2") && !times(&w, "HANDED 3"),
       "the next load is not that rank's, which asked first");
    for_any(&w, 0, "second");
    ok(times(&w, "HANDED") == 1, "and it takes none before it asks again");
    finishes(&w, 2, 1);
    ok(times(&w, "HANDED 2") == 2, "the one that finishes and asks gets it");
    takes(&w, 2, 1);
    finishes(&w, 3, 1);
    buf_clear(&w.log);
    for_any(&w, 0, "third");
    ok(logged(&w, "send HANDED 3") && !times(&w, "HANDED 2"),
       "of two that take one, it goes to the rank that has finished its loads");
    world_close(&w);
}

static void a_load_of_which_half_is_dropped(void)
{
    struct clock clock;
    struct world w;

    begin_call(&w, &clock);
    for_any(&w, HAND_MORE, "half");
    for_any(&w, HAND_DROP, NULL);
    for_any(&w, 0, "whole");
    takes(&w, 2, 2);
    ok(times(&w, "HANDED") == 1 && sent(&w, "whole"),
       "what was dropped is no part of the next load");
    world_close(&w);
}

static void the_last_load_is_said(void)
{
    struct clock clock;
    struct world w;

    begin_call(&w, &clock);
    takes(&w, 2, 1);
    takes(&w, 3, 2);
    buf_clear(&w.log);
    for_any(&w, 0, "only");
    for_any(&w, HAND_LAST, NULL);
    ok(in_order(&w, "send HANDED 2", "send HANDED 3") && !sent(&w, "only"),
       "after the last load, ranks that take one are told by a message with an empty load");
    buf_clear(&w.log);
    takes(&w, 2, 1);
    ok(logged(&w, "send HANDED 2"), "so is one that asks later");
    world_close(&w);
    begin_call(&w, &clock);
    for_any(&w, 0, "one");
    for_any(&w, 0, "two");
    for_any(&w, HAND_LAST | HAND_DROP, NULL);
    takes(&w, 2, 1);
    ok(times(&w, "HANDED") == 1 && !sent(&w, "one") && !sent(&w, "two"),
       "loads that home drops reach nobody");
    world_close(&w);
}

/* Its code may catch the interrupt and go on. */
static void an_interrupted_rank_gets_no_more(void)
{
    struct clock clock;
    struct world w;

    begin_call(&w, &clock);
    takes(&w, 2, 1);
    takes(&w, 3, 1);
    for_any(&w, 0, "one");
    for_any(&w, 0, "two");
    for_any(&w, 0, "waits");
    dispatch_interrupt(w.nb);
    buf_clear(&w.log);
    finishes(&w, 2, 1);
    ok(logged(&w, "send HANDED 2") && !sent(&w, "waits"),
       "after an interrupt, a rank that takes a load is told that there are no more");
    for_any(&w, 0, "late");
    buf_clear(&w.log);
    finishes(&w, 3, 1);
    ok(logged(&w, "send HANDED 3") && !sent(&w, "late"), "also if home hands more");
    world_close(&w);
}

static void a_rank_that_has_ended_gets_none(void)
{
    struct clock clock;
    struct world w;

    begin_call(&w, &clock);
    takes(&w, 2, 1);
    takes(&w, 3, UINT64_MAX);
    done(&w, 2, "ok", "", "");
    buf_clear(&w.log);
    for (int i = 0; i < 20; i++)
        for_any(&w, 0, "load");
    ok(!times(&w, "HANDED 2") && times(&w, "HANDED 3") == 16,
       "the others get its loads, and a rank at most 16 at once");
    done(&w, 3, "ok", "", "");
    ok(!w.nb->cells, "what nobody has taken is freed with the cell");
    world_close(&w);
}

/* What can't be sent, such as when memory is out, would be waited for without an end. */
static void what_can_not_be_sent_ends_the_call(void)
{
    static const char stopped[] =
        "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}";
    struct clock clock;
    struct world w;

    for (int down = 0; down < 2; down++) {
        begin_call(&w, &clock);
        w.stuck = SPAN_HANDED;
        hands(&w, down ? SPAN_WORKER_HOME : 3, w.nb->cells->id, 1, "items");
        pass(&w, 2 * NS_PER_S);
        ok(logged(&w, "send INTERRUPT 2 3"), "if %s can't be sent, the ranks are interrupted",
           down ? "items" : "results");
        done(&w, 2, "error", stopped, "");
        done(&w, 3, "error", stopped, "");
        ok(!w.nb->cells && logged(&w, "send RETURN 1") && sent(&w, "can't be reached"),
           "and home's call ends with the reason");
        world_close(&w);
    }
}

/* A cell of home's has begun it, and has ended. */
static void begin_async(struct world *w, struct clock *clock)
{
    struct span call = { .kind = SPAN_CALL, .cell = 1 };

    home_open(w, clock);
    run(w, "later = ...");
    call.v[F_CALL_TEXT].s = slice_text("%%distribute -n 2\nwork()");
    call.v[F_CALL_FLAGS].u64 = CALL_ASYNC;
    say(w, SPAN_WORKER_HOME, call);
    replied(w, 1, "ok", "{\"status\":\"ok\"}");
}

static void a_stop_that_waits_for_the_ranks_to_begin(void)
{
    struct clock clock;
    struct world w;

    begin_async(&w, &clock);
    next(&w, "%ranks stop");
    ok(!times(&w, "INTERRUPT"), "nothing runs yet that %%ranks stop could interrupt");
    provide(&w);
    all_ready(&w, 2, 3);
    ok(in_order(&w, "send RUN 3", "send INTERRUPT 2 3"), "it is interrupted as soon as it runs");
    world_close(&w);
}

static void a_call_that_home_does_not_wait_for(void)
{
    struct clock clock;
    struct world w;

    begin_async(&w, &clock);
    next(&w, "1 + 1");
    ok(!times(&w, "REQUEST"), "while it begins, home's next cell waits");
    provide(&w);
    all_ready(&w, 2, 3);
    ok(in_order(&w, "send RUN 3", "send REQUEST 1"), "and runs as soon as the ranks run");
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 1") && !times(&w, "INTERRUPT 2"), "an interrupt is home's");
    replied(&w, w.nb->home.executing->cell, "ok", "{\"status\":\"ok\"}");
    next(&w, "%%distribute\nprint()");
    next(&w, "2 + 2");
    ok(!times(&w, "CAPTURE") && !times(&w, "REQUEST"), "another cell on ranks waits");
    dispatch_interrupt(w.nb);
    ok(in_order(&w, "another call was running on the ranks", "\"aborted\"") &&
           !times(&w, "INTERRUPT") && !times(&w, "CAPTURE"),
       "an interrupt ends this cell, and the ranks go on");
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 2 3"), "while no cell waits, an interrupt is the ranks'");
    next(&w, "%%distribute\nprint()");
    all_done(&w, 2, 3);
    ok(in_order(&w, "send RETURN 1", "send CAPTURE 1"), "then the next cell comes");
    world_close(&w);
}

/* ---- a call that outlives ranks ---- */

static void begin_outliving(struct world *w, struct clock *clock)
{
    struct span call = { .kind = SPAN_CALL, .cell = 1 };

    home_open(w, clock);
    run(w, "cellspan.map(f, xs, retries=1)");
    call.v[F_CALL_TEXT].s = slice_text("%%distribute -n 2\nwork()");
    call.v[F_CALL_FLAGS].u64 = CALL_SHOWN | CALL_VALUE | CALL_FUNCTION | CALL_OUTLIVES;
    say(w, SPAN_WORKER_HOME, call);
    provide(w);
    all_ready(w, 2, 3);
    for_any(w, 0, "first");
    for_any(w, 0, "second");
    for_any(w, 0, "third");
    takes(w, 2, 2);
    takes(w, 3, 1);
    buf_clear(&w->log);
}

static void home_learns_what_a_dead_rank_had(void)
{
    struct clock clock;
    struct world w;

    begin_outliving(&w, &clock);
    finishes(&w, 2, 0);
    exited(&w, 2, 1, 9);
    ok(times(&w, "send HANDED 1") == 1 && sent(&w, "signal 9") && sent(&w, "second") &&
           !sent(&w, "first") && !sent(&w, "third"),
       "home is told how a rank died, and what it had not finished");
    ok(logged(&w, "other ranks do its work") && !times(&w, "INTERRUPT"), "the others go on");
    buf_clear(&w.log);
    takes(&w, 3, 2);
    for_any(&w, 0, "second");
    for_any(&w, 0, "fourth");
    ok(times(&w, "HANDED 3") >= 1 && !times(&w, "HANDED 2"), "loads go to those that live");
    done(&w, 3, "ok", "", "");
    ok(!w.nb->cells && logged(&w, "send RETURN 1") && sent(&w, "ok"), "and the call ends well");
    world_close(&w);
}

static void the_last_death_ends_it(void)
{
    struct clock clock;
    struct world w;

    begin_outliving(&w, &clock);
    exited(&w, 2, 1, 9);
    exited(&w, 3, 0, 7);
    ok(times(&w, "send HANDED 1") == 2, "home is told of the last rank's death, too");
    pass(&w, NS_PER_S);
    ok(!w.nb->cells && sent(&w, "RankDied") && sent(&w, "signal 9") && sent(&w, "status 7"),
       "a call whose ranks have all died fails, and names all of them");
    world_close(&w);
}

static void other_failures_end_it(void)
{
    static const char wrong[] = "{\"ename\":\"ValueError\",\"evalue\":\"\",\"traceback\":[]}";
    static const char stopped[] =
        "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}";
    struct span stop = { .kind = SPAN_HAND, .v[F_HAND_FLAGS].u64 = HAND_STOP };
    struct clock clock;
    struct world w;

    begin_outliving(&w, &clock);
    exited(&w, 2, 1, 9);
    done(&w, 3, "error", wrong, "");
    pass(&w, NS_PER_S);
    ok(!w.nb->cells && sent(&w, "ValueError") && !sent(&w, "RankDied"),
       "an exception ends it, and a death before is not its cause");
    world_close(&w);
    begin_outliving(&w, &clock);
    stop.cell = w.nb->cells->id;
    say(&w, SPAN_WORKER_HOME, stop);
    ok(logged(&w, "send INTERRUPT 2 3"), "home can end it");
    done(&w, 2, "error", stopped, "");
    done(&w, 3, "error", stopped, "");
    ok(!w.nb->cells && sent(&w, "home has ended the call"), "then it fails");
    world_close(&w);
}

/* ---- the count ---- */

static void items(struct world *w, uint32_t worker, uint64_t flags, uint64_t n, uint64_t failed)
{
    struct span m = { .kind = SPAN_HAND, .cell = w->nb->cells->id };

    m.v[F_HAND_FLAGS].u64 = flags;
    m.v[F_HAND_ITEMS].u64 = n;
    m.v[F_HAND_FAILED].u64 = failed;
    say(w, worker, m);
}

static void items_are_counted(void)
{
    struct clock clock;
    struct world w;

    begin_outliving(&w, &clock);
    pass(&w, 2 * NS_PER_S);
    pass(&w, NS_PER_S);
    ok(logged(&w, "running 0:03") && !strstr(w.log.p, "so far"), "nothing was counted yet");
    items(&w, 2, HAND_FINISHED, 5, 0);
    pass(&w, NS_PER_S);
    ok(logged(&w, "5 so far\\nranks 0-1 running 0:04"), "the status has the items that are done");
    items(&w, SPAN_WORKER_HOME, HAND_ANY, 40, 0);
    items(&w, 2, 0, 3, 1);
    items(&w, 3, HAND_FINISHED, 2, 1);
    pass(&w, NS_PER_S);
    ok(logged(&w, "10 of 40, 2 failed"), "home says how many there will be");
    buf_clear(&w.log);
    exited(&w, 2, 1, 9);
    pass(&w, NS_PER_S);
    ok(logged(&w, "7 of 40, 1 failed"),
       "what a dead rank had done of a load that it had not finished is not done");
    done(&w, 3, "ok", "", "");
    ok(logged(&w, "7 of 40, 1 failed: rank 0 dead, rank 1 done in 0:06"), "the count stays");
    world_close(&w);
}

int main(void)
{
    each_gets_what_is_for_it();
    a_clients_cell_hands_nothing();
    an_interrupt_is_for_home_too();
    what_can_not_be_sent_ends_the_call();
    a_call_that_home_does_not_wait_for();
    a_stop_that_waits_for_the_ranks_to_begin();
    loads_go_to_whoever_takes_them();
    parts_of_a_load_stay_together();
    a_rank_with_a_load_of_its_own_is_not_free();
    a_load_of_which_half_is_dropped();
    the_last_load_is_said();
    an_interrupted_rank_gets_no_more();
    a_rank_that_has_ended_gets_none();
    home_learns_what_a_dead_rank_had();
    the_last_death_ends_it();
    other_failures_end_it();
    items_are_counted();
    return plan_done();
}
