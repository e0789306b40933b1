/* Calls of threads that run at the same time, on different ranks. */
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

/* A function's call of a thread. */
static void call(struct world *w, uint64_t number, const char *line, const char *looked)
{
    struct span m = { .kind = SPAN_CALL, .cell = 1 };
    char text[128];

    snprintf(text, sizeof text, "%s\nf()", line);
    m.v[F_CALL_TEXT].s = slice_text(text);
    m.v[F_CALL_FLAGS].u64 = CALL_SHOWN | CALL_VALUE | CALL_FUNCTION | CALL_ASIDE;
    m.v[F_CALL_CALL].u64 = number;
    m.v[F_CALL_NAMES].s = slice_text(looked);
    m.v[F_CALL_LOAD].s = slice_text("(f, (), {})");
    say(w, SPAN_WORKER_HOME, m);
}

static void call_on(struct world *w, uint64_t number, const char *ranks)
{
    char line[64];

    snprintf(line, sizeof line, "%%%%distribute -r %s", ranks);
    call(w, number, line, "{\"names\": []}");
}

static struct cell *running(const struct world *w, uint64_t call)
{
    CELLS_EACH (c, w->nb)
        if (c->from.call == call)
            return c;
    return NULL;
}

static unsigned cells(const struct world *w)
{
    unsigned n = 0;

    CELLS_EACH (c, w->nb)
        n++;
    return n;
}

/* The rank's DONE. */
static void ends_cell(struct world *w, uint64_t cell, uint32_t worker, uint64_t flags)
{
    struct span m = { .kind = SPAN_DONE, .cell = cell };

    m.v[F_DONE_STATUS].s = slice_text("ok");
    m.v[F_DONE_CONTENT].s = slice_text("{}");
    m.v[F_DONE_VALUE].s = slice_text("one");
    m.v[F_DONE_FLAGS].u64 = flags;
    say(w, worker, m);
}

static void ends_with(struct world *w, uint64_t call, uint32_t worker, uint64_t flags)
{
    ends_cell(w, running(w, call) ? running(w, call)->id : 0, worker, flags);
}

static void ends(struct world *w, uint64_t call, uint32_t worker)
{
    ends_with(w, call, worker, 0);
}

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

/* Four idle ranks, workers 2 to 5, on two machines. Home runs a cell. */
static void open_four(struct world *w, struct clock *clock)
{
    open_two(w, clock);
    run(w, "pool.map(f, range(4))");
    buf_clear(&w->log);
}

/* One call runs on rank 0, one on ranks 2 and 3. */
static void open_with_two(struct world *w, struct clock *clock)
{
    open_four(w, clock);
    call_on(w, 7, "0");
    port(w);
    call_on(w, 8, "2-3");
}

/* Home's cell ends well. */
static void end_at_home(struct world *w)
{
    replied(w, w->nb->home.executing->cell, "ok", "{\"status\":\"ok\"}");
}

/* The same, but home runs nothing. */
static void open_in_background(struct world *w, struct clock *clock)
{
    open_with_two(w, clock);
    end_at_home(w);
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
    const struct span m = { .kind = SPAN_ENDS, .cell = running(w, call)->id };

    dispatch_message(w->nb, node, SPAN_WORKER_NONE, &m);
}

static void connections_stay(void)
{
    struct clock clock;
    struct world w;

    open_with_two(&w, &clock);
    ends_call(&w, 8);
    pass(&w, 2 * NS_PER_S);
    ok(times(&w, "send SEVER") == 2, "nodes are asked for the connections of a call that hangs");
    says_ends(&w, 8, 1);
    says_ends(&w, 8, 2);
    ok(times(&w, "send SEVER 4 5\n") == 2 && times(&w, "send SEVER 3\n") == 2 &&
           !times(&w, "SEVER 2"),
       "connections of ranks that run another call are not cut, those of idle ranks are");
    world_close(&w);
    open_with_two(&w, &clock);
    ends_call(&w, 7);
    ends_call(&w, 8);
    pass(&w, 2 * NS_PER_S);
    says_ends(&w, 7, 1);
    says_ends(&w, 7, 2);
    ok(times(&w, "send SEVER 2 3\n") >= 2 && times(&w, "send SEVER 4 5\n") >= 2,
       "if the other call is stopped, too, its ranks are among them: both may wait for each other");
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
    ok(!w.nb->cells->from.is_call && !w.nb->calls.lifts, "the client's cell gets its turn");
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

static void worlds(void)
{
    struct clock clock;
    struct world w;

    open_four(&w, &clock);
    call_on(&w, 7, "0");
    port(&w);
    ends_with(&w, 7, 2, DONE_DISTRIBUTED);
    ok(w.nb->group->n_met == 1, "the ranks of a call have met");
    call_on(&w, 7, "0");
    call_on(&w, 8, "1");
    ends_with(&w, 7, 2, DONE_DISTRIBUTED);
    call_on(&w, 9, "2");
    ok(running(&w, 9) && w.nb->group->n_met == 1 && w.nb->group->port == 20123,
       "a call that begins beside others leaves their world as it is");
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
    run_at_once();
    some_wait();
    some_run_alone();
    variables();
    a_rank_dies();
    prompts_stay();
    connections_stay();
    clients_go_first();
    nothing_moves();
    clients_run_beside();
    home_goes_first();
    interrupts();
    each_has_its_own_times();
    a_call_hangs();
    worlds();
    home_dies();
    return plan_done();
}
