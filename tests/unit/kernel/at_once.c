/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of threads that run at the same time, on different ranks: which of them begin, and when. */
#include "tests/unit/kernel/thread_calls.h"
#include "tests/unit/tap.h"

/* Home has found that this cell reads no variables. */
static void captured_by(struct world *w, uint64_t cell)
{
    struct span m = { .kind = SPAN_CAPTURED, .cell = cell };

    m.v[F_CAPTURED_NAMES].s = slice_text("{\"names\": []}");
    say(w, SPAN_WORKER_HOME, m);
}

static void prints(struct world *w, uint64_t call, uint32_t worker, const char *line)
{
    struct span m = { .kind = SPAN_LINES, .cell = running(w, call)->id };

    m.v[F_LINES_STREAM].u64 = 1;
    m.v[F_LINES_DATA].s = slice_text(line);
    say(w, worker, m);
}

static void run_at_once(void)
{
    struct clock clock;
    struct world w;

    open_four(&w, &clock);
    call_on(&w, 7, "0");
    call_on(&w, 8, "1");
    ok(cells(&w) == 1 && !times(&w, "send RUN"), "a call that begins lets no other begin");
    port(&w);
    ok(cells(&w) == 2 && logged(&w, "send RUN 2\n") && logged(&w, "send RUN 3\n"),
       "when ranks run it, a call on other ranks begins");
    ok(times(&w, "send PORT") == 1 && w.nb->group->port == 20123,
       "in the same world, with the same port");
    prints(&w, 8, 3, "of rank 1\n");
    prints(&w, 7, 2, "of rank 0\n");
    ends(&w, 8, 3);
    ok(cells(&w) == 1 && times(&w, "send RETURN 1") == 1 && logged(&w, "[1] of rank 1"),
       "each returns when its own ranks have ended, and its lines have a label");
    ends(&w, 7, 2);
    ok(!w.nb->cells && times(&w, "send RETURN 1") == 2 && logged(&w, "[0] of rank 0"),
       "also the one that began first");
    world_close(&w);
}

static void some_wait(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    call_on(&w, 9, "3");
    call_on(&w, 10, "1");
    ok(cells(&w) == 3 && running(&w, 10) && !running(&w, 9),
       "a call waits for its rank; another one whose rank is free does not wait behind it");
    call_on(&w, 11, "all");
    call_on(&w, 12, "1");
    ends(&w, 10, 3);
    ok(cells(&w) == 2, "none goes before an earlier one for the same rank");
    ends(&w, 8, 4);
    ends(&w, 8, 5);
    ok(running(&w, 9) && cells(&w) == 2, "the first one that waits begins when its rank is free");
    ends(&w, 9, 5);
    ends(&w, 7, 2);
    ok(running(&w, 11) && cells(&w) == 1, "then the one for all ranks, alone");
    world_close(&w);
}

static void some_run_alone(void)
{
    static const char *const lines[] = {
        "%%distribute",
        "%%distribute -r 1 -n 2",
        "%%distribute -r 1 --fresh",
        "%%distribute -r 1 --beside",
        "%%distribute -r 1 --init",
        "%%distribute -r 1 --env A=1",
        "%%distribute -r 1 --no-gpu",
        "%%distribute -r 1 --share",
        "%%distribute -r 1 --gpus 1",
        "%%distribute -r 1 -n gpu",
        "%%distribute -r 1 --nproc-per-node 2",
        "%%distribute -r 1 --on local",
        "%%distribute -r 9",
        "%%distribute -r 1 --no-such-option",
        "%ranks restart -r 1",
    };
    struct clock clock;
    struct world w;

    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        open_with_two(&w, &clock);
        call_on(&w, 5, "1");
        ends(&w, 5, 3);
        call(&w, 9, lines[k], "{\"names\": []}");
        call_on(&w, 10, "1");
        ok(cells(&w) == 2 && w.nb->calls.first,
           "%s waits until no other runs, and so does what follows", lines[k]);
        world_close(&w);
    }
    open_with_two(&w, &clock);
    call(&w, 9, "%%distribute -r 1 -n 4 --gather", "{\"names\": []}");
    ok(running(&w, 9), "the world's size as -n changes nothing");
    world_close(&w);
    open_four(&w, &clock);
    call(&w, 7, "%%distribute --beside -r 0", "{\"names\": []}");
    call_on(&w, 8, "1");
    ok(cells(&w) == 1, "nothing runs while ranks start beside the group");
    world_close(&w);
}

static void variables(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    call(&w, 9, "%%distribute -r 1", CAPTURES_X);
    call_on(&w, 10, "2");
    ok(times(&w, "send PACK 1") == 1 && running(&w, 9), "a call that waits for variables begins");
    packed(&w, running(&w, 9)->id, "");
    ok(logged(&w, "send BIND 3\n") && logged(&w, "send RUN 3\n"), "they go to its ranks alone");
    packed(&w, 4711, "");
    ok(logged(&w, "drop "), "those of a call that is over are dropped");
    world_close(&w);
}

static void clients_go_first(void)
{
    struct clock clock;
    struct world w;

    open_in_background(&w, &clock);
    pass(&w, NS_PER_S);
    run(&w, "%%distribute\npass");
    call_on(&w, 9, "1");
    call_on(&w, 10, "0");
    ends(&w, 7, 2);
    ok(cells(&w) == 1, "while a client's cell waits for all ranks, no call begins");
    ends(&w, 8, 4);
    ends(&w, 8, 5);
    ok(cells(&w) == 1 && !w.nb->cells->from.is_call, "and then it is the client's turn");
    provide(&w);
    all_done(&w, 2, 5);
    ok(running(&w, 9), "after it, that of the calls");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "%%distribute -r 1-2\npass");
    call_on(&w, 9, "1");
    ends(&w, 7, 2);
    call_on(&w, 10, "0");
    ok(!running(&w, 9) && running(&w, 10), "one that names ranks holds back only calls for these");
    world_close(&w);
    open_four(&w, &clock);
    end_at_home(&w);
    run(&w, "%%distribute -r 2-3\npass");
    provide(&w);
    call_on(&w, 9, "0");
    ok(running(&w, 9) && cells(&w) == 2, "a call may run beside a client's cell");
    run(&w, "1 + 1");
    ok(!w.nb->home.executing, "but the client's next cell waits for the one before it");
    all_done(&w, 4, 5);
    ok(w.nb->home.executing && running(&w, 9), "and begins when that has ended");
    world_close(&w);
}

/* A client's cell for all ranks waits for calls 7 and 8, and calls 9 and 10 wait behind it. */
static void open_with_held(struct world *w, struct clock *clock)
{
    open_in_background(w, clock);
    pass(w, NS_PER_S);
    run(w, "%%distribute\npass");
    call_on(w, 9, "1");
    call_on(w, 10, "1");
}

/* What runs may wait for calls that are held back. */
static void nothing_moves(void)
{
    struct clock clock;
    struct world w;

    open_with_held(&w, &clock);
    ok(calls_due(w.nb) == w.now + NS_PER_S && w.due <= w.now + NS_PER_S,
       "if nothing begins or ends for a second");
    pass(&w, NS_PER_S);
    ok(running(&w, 9) && !running(&w, 10), "calls begin nevertheless whose ranks are free");
    pass(&w, NS_PER_S / 2);
    ends(&w, 9, 3);
    ok(!running(&w, 10) && calls_due(w.nb) == w.now + 2 * NS_PER_S,
       "those after them wait twice as long");
    pass(&w, NS_PER_S);
    call_on(&w, 11, "0");
    ends(&w, 7, 2);
    pass(&w, NS_PER_S);
    ok(!running(&w, 10) && !running(&w, 11), "from the last time that something has ended");
    pass(&w, NS_PER_S);
    ok(running(&w, 10) && running(&w, 11), "then all begin whose ranks are free");
    world_close(&w);
    open_with_held(&w, &clock);
    pass(&w, NS_PER_S);
    ends(&w, 7, 2);
    ends(&w, 8, 4);
    ends(&w, 8, 5);
    ends(&w, 9, 3);
    ok(!w.nb->cells->from.is_call && !w.nb->calls.held->releases,
       "the client's cell gets its turn");
    provide(&w);
    all_done(&w, 2, 5);
    ok(running(&w, 10), "and then they begin as usual");
    world_close(&w);
    open_with_two(&w, &clock);
    pass(&w, NS_PER_S);
    call_on(&w, 9, "0-1");
    call_on(&w, 10, "1");
    ok(!running(&w, 10), "calls for the same ranks keep their order");
    pass(&w, NS_PER_S);
    ok(running(&w, 10) && !running(&w, 9), "unless nothing moves");
    world_close(&w);
}

static void clients_run_beside(void)
{
    struct clock clock;
    struct world w;

    open_in_background(&w, &clock);
    run(&w, "%%distribute -r 1-2\npass");
    ok(cells(&w) == 2, "a client's cell waits for its ranks");
    ends(&w, 8, 4);
    ends(&w, 8, 5);
    ok(cells(&w) == 2 && logged(&w, "send CAPTURE 1"), "and begins when no call uses them");
    captured_by(&w, w.nb->cells->from.next->id);
    ok(logged(&w, "send RUN 3\n") && times(&w, "send PORT") == 1, "in the same world");
    run(&w, "%%distribute -r 3\npass");
    ok(cells(&w) == 2, "a client's next cell waits for the one before it");
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 3 4\n") && !times(&w, "send INTERRUPT 2"),
       "an interrupt is for the client's cell alone");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "%pull x -r 1");
    captured_by(&w, w.nb->cells->from.next->from.next->id);
    ok(cells(&w) == 3 && logged(&w, "send FETCH 3\n"), "%%pull of a rank that is free");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "%%distribute -r {rank}\npass");
    ok(cells(&w) == 2, "a line that home has to expand waits");
    world_close(&w);
}

static void home_goes_first(void)
{
    struct clock clock;
    struct world w;

    open_in_background(&w, &clock);
    call(&w, 9, "%%distribute -r 1", CAPTURES_X);
    run(&w, "1 + 1");
    call(&w, 10, "%%distribute -r 1", CAPTURES_X);
    call(&w, 11, "%%distribute -r 0", CAPTURES_X);
    ends(&w, 7, 2);
    ok(!w.nb->home.executing, "home's cell waits while a call begins");
    packed(&w, running(&w, 9)->id, "");
    ok(w.nb->home.executing && running(&w, 11),
       "and begins before other calls do, so that they can't hold it up");
    world_close(&w);
}

static void worlds(void)
{
    struct clock clock;
    struct world w;

    open_four(&w, &clock);
    call_on(&w, 7, "0");
    port(&w);
    ends_with(&w, 7, 2, DONE_DISTRIBUTED);
    ok(w.nb->group->n_initialised == 1, "the ranks of a call have met");
    call_on(&w, 7, "0");
    call_on(&w, 8, "1");
    ends_with(&w, 7, 2, DONE_DISTRIBUTED);
    call_on(&w, 9, "2");
    ok(running(&w, 9) && w.nb->group->n_initialised == 1 && w.nb->group->port == 20123,
       "a call that begins beside others leaves their world as it is");
    world_close(&w);
}

int main(void)
{
    run_at_once();
    some_wait();
    some_run_alone();
    variables();
    clients_go_first();
    nothing_moves();
    clients_run_beside();
    home_goes_first();
    worlds();
    return plan_done();
}
