/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of home: a function and its value go along with the messages if they are small; calls of
 * several threads for the same ranks run one after the other. */
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define LOOKED "{\"names\": []}"

static bool gives_ports = true; /* call() does */

/* Home's call of this number for a function; `looked` is what home has found out of its variables.
 */
static void call_as(struct world *w, uint64_t number, const char *text, const char *looked)
{
    struct span m = { .kind = SPAN_CALL, .cell = 1 };

    m.v[F_CALL_TEXT].s = slice_text(text);
    m.v[F_CALL_FLAGS].u64 = CALL_SHOWN | CALL_VALUE | CALL_FUNCTION;
    m.v[F_CALL_CALL].u64 = number;
    m.v[F_CALL_NAMES].s = slice_text(looked);
    m.v[F_CALL_LOAD].s = slice_text("(f, (), {})");
    say(w, SPAN_WORKER_HOME, m);
    if (gives_ports && w->nb->cells && w->nb->cells->prep.wants_port)
        port(w);
}

/* The rank's cell has also assigned these names. */
static void returns_and_assigns(struct world *w, uint32_t worker, const char *value, uint64_t blob,
                                const char *names)
{
    struct span m = { .kind = SPAN_DONE, .cell = w->nb->cells->id, .blob = blob };

    m.blob_size = blob ? 1000000 : 0;
    m.v[F_DONE_STATUS].s = slice_text("ok");
    m.v[F_DONE_CONTENT].s = slice_text("{}");
    m.v[F_DONE_VALUE].s = slice_text(value);
    m.v[F_DONE_ASSIGNED].s = slice_text(names);
    say(w, worker, m);
}

static void call(struct world *w, uint64_t number, const char *text)
{
    call_as(w, number, text, LOOKED);
}

static void returns(struct world *w, uint32_t worker, const char *value, uint64_t blob)
{
    returns_and_assigns(w, worker, value, blob, "");
}

/* Rank 0's value is the call's. */
static void both_return(struct world *w)
{
    returns(w, 2, "one", 0);
    returns(w, 3, "", 0);
}

/* Two idle ranks, workers 2 and 3, home's cell runs, and the log is empty. */
static void open_at_home(struct world *w, struct clock *clock)
{
    world_open_idle(w, clock);
    run(w, "cellspan.run(f)");
    buf_clear(&w->log);
}

/* The second one waits. */
static void open_with_two_calls(struct world *w, struct clock *clock)
{
    open_at_home(w, clock);
    call(w, 7, "%%distribute\nf()");
    call(w, 8, "%%distribute\ng()");
}

static bool last_is(const struct world *w, enum span_kind kind, unsigned field, const char *text)
{
    struct span m;
    struct err err;
    bool same;

    if (span_decode(&m, w->sent.p, w->sent.n, &err) < 0)
        return false;
    same = m.kind == kind && slice_is(m.v[field].s, text);
    span_release(&m);
    return same;
}

static void small_values_come_with_return(void)
{
    struct clock clock;
    struct world w;

    open_at_home(&w, &clock);
    call(&w, 7, "%%distribute --gather\nf()");
    ok(!times(&w, "CAPTURE") && !times(&w, "PACK") &&
           last_is(&w, SPAN_RUN, F_RUN_LOAD, "(f, (), {})"),
       "a small function goes to the ranks at once");
    returns(&w, 2, "one", 0);
    returns(&w, 3, "two", 0);
    ok(!w.nb->cells && !times(&w, "BIND") && sent(&w, "one") && sent(&w, "two"),
       "and their small values come home in RETURN");
    call(&w, 8, "%%distribute --gather\nf()");
    returns(&w, 2, "one", 0);
    returns(&w, 3, "", 5);
    ok(times(&w, "send BIND 1") == 2, "if one of them is large, home gets each in a BIND");
    world_close(&w);
}

static void a_value_that_did_not_come(void)
{
    struct clock clock;
    struct world w;

    open_at_home(&w, &clock);
    call(&w, 7, "%%distribute\nf()");
    returns(&w, 2, "", 0);
    returns(&w, 3, "", 0);
    ok(!w.nb->cells && last_is(&w, SPAN_RETURN, F_RETURN_STATUS, "error"),
       "a value that did not come is an error");
    world_close(&w);
}

static void several_at_once(void)
{
    struct clock clock;
    struct world w;

    open_with_two_calls(&w, &clock);
    call(&w, 9, "%%distribute\nh()");
    ok(times(&w, "send RUN 2") == 1, "a call waits for the end of the one before it");
    both_return(&w);
    ok(in_order(&w, "send RETURN 1", "send PORT node 0") && w.nb->cells, "then it begins");
    port(&w);
    dispatch_interrupt(w.nb);
    ok(times(&w, "send RETURN 1") == 2 && !w.nb->calls.first, "an interrupt ends those that wait");
    ok(logged(&w, "send INTERRUPT 2 3"), "and the one that runs");
    world_close(&w);
}

/* The cell's port, and two more. */
static void ports(struct world *w)
{
    struct span m = { .kind = SPAN_PORT, .cell = w->nb->cells->id, .v[F_PORT_PORT].u64 = 20001 };

    m.v[F_PORT_MORE].s = slice_of("\x22\x4e\x23\x4e", 4);
    say(w, SPAN_WORKER_NONE, m);
}

static void one_call(struct world *w, uint64_t number)
{
    call(w, number, "%%distribute\nf()");
    both_return(w);
}

static void ports_for_calls_in_a_row(void)
{
    struct clock clock;
    struct world w;

    open_at_home(&w, &clock);
    gives_ports = false;
    call(&w, 7, "%%distribute\nf()");
    ports(&w);
    ok(w.nb->group->port == 20001, "a call has a port of its own");
    both_return(&w);
    buf_clear(&w.log);
    one_call(&w, 8);
    ok(!times(&w, "PORT") && w.nb->group->port == 20003,
       "what follows at once has one of those that came with it");
    one_call(&w, 9);
    ok(w.nb->group->port == 20002, "until all are used");
    call(&w, 10, "%%distribute\nf()");
    ok(times(&w, "PORT") == 1, "then more are asked for");
    ports(&w);
    both_return(&w);
    pass(&w, 2 * NS_PER_S);
    buf_clear(&w.log);
    call(&w, 11, "%%distribute\nf()");
    ok(times(&w, "PORT") == 1, "those that came long ago are not used");
    world_close(&w);
    gives_ports = true;
}

/* A call of home has run, and both ranks have bound x. */
static void open_with_x_of_ranks(struct world *w, struct clock *clock)
{
    open_at_home(w, clock);
    call(w, 7, "%%distribute\nf()");
    returns_and_assigns(w, 2, "one", 0, "x");
    returns_and_assigns(w, 3, "", 0, "x");
}

/* Home says only once which of its versions are older than what ranks have bound. */
static void a_call_that_fails_brings_news_of_variables(void)
{
    struct clock clock;
    struct world w;

    open_with_x_of_ranks(&w, &clock);
    ok(sent(&w, "one") && in_order(&w, "send NEWER 1", "send RETURN 1"),
       "home hears of a name that ranks have bound");
    call_as(&w, 8, "%%distribute --no-such-option\nf()",
            "{\"names\": [], \"newer\": [[\"x\", 1]]}");
    ok(!w.nb->cells && last_is(&w, SPAN_RETURN, F_RETURN_STATUS, "error"), "the next call fails");
    call_as(&w, 9, "%%distribute\nf()", CAPTURES_X);
    ok(!times(&w, "PACK") && last_is(&w, SPAN_RUN, F_RUN_LOAD, "(f, (), {})"),
       "but home's older value does not go over what the ranks have bound");
    world_close(&w);
}

/* The second call comes from a thread that does not know yet what the first one has bound. */
static void what_ranks_bind_stays_newer(void)
{
    struct clock clock;
    struct world w;

    open_with_x_of_ranks(&w, &clock);
    ok(times(&w, "send NEWER 1") == 1, "home is told which variables ranks have bound");
    call(&w, 8, "%%distribute\ng()");
    both_return(&w);
    buf_clear(&w.log);
    call_as(&w, 9, "%%distribute\nh()",
            "{\"names\": [[\"x\", 5, 8, \"\", 5, 0]], \"newer\": [[\"x\", 5]]}");
    ok(times(&w, "send RUN 2") == 1 && !times(&w, "send PACK"),
       "home's older value does not replace theirs");
    world_close(&w);
}

/* Home says that it was interrupted while this call was on its way. */
static void interrupted(struct world *w, uint64_t number)
{
    struct span m = { .kind = SPAN_CALL, .cell = 1 };

    m.v[F_CALL_FLAGS].u64 = CALL_INTERRUPT;
    m.v[F_CALL_CALL].u64 = number;
    say(w, SPAN_WORKER_HOME, m);
}

static void a_call_ends_that_comes_after_its_interrupt(void)
{
    struct clock clock;
    struct world w;

    open_with_two_calls(&w, &clock);
    interrupted(&w, 9);
    ok(w.nb->calls.first && !times(&w, "send INTERRUPT"), "a call that is over is not interrupted");
    interrupted(&w, 8);
    ok(!w.nb->calls.first && sent(&w, "KeyboardInterrupt") && !times(&w, "send INTERRUPT"),
       "a call that waits ends at once");
    interrupted(&w, 7);
    ok(times(&w, "send INTERRUPT") == 1, "the ranks of one that runs are interrupted");
    interrupted(&w, 7);
    ok(times(&w, "send INTERRUPT") == 1, "once");
    world_close(&w);
}

static void home_ends(void)
{
    struct clock clock;
    struct world w;

    open_with_two_calls(&w, &clock);
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    ok(!w.nb->calls.first, "calls that wait end with home");
    world_close(&w);
}

static void tables_while_ranks_run(void)
{
    struct clock clock;
    struct world w;

    open_at_home(&w, &clock);
    call(&w, 7, "%%distribute\nf()");
    call(&w, 8, "%ranks");
    ok(!w.nb->calls.first && times(&w, "send GAUGES") == 1 && !times(&w, "send RETURN"),
       "%%ranks does not wait for the call that runs: the nodes are asked");
    pass(&w, 3 * NS_PER_S);
    ok(times(&w, "send RETURN 1") == 1 && sent(&w, "\"state\"") && w.nb->cells,
       "the table comes at the latest after some seconds, and the call runs on");
    call(&w, 9, "%ranks stop");
    ok(w.nb->calls.first && times(&w, "send RETURN 1") == 1,
       "other commands wait for the call's end");
    both_return(&w);
    ok(times(&w, "send RETURN 1") >= 2, "it returns as usual");
    world_close(&w);
    open_at_home(&w, &clock);
    call(&w, 7, "%%distribute\nf()");
    call(&w, 8, "%ranks");
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    pass(&w, 3 * NS_PER_S);
    ok(!times(&w, "send RETURN") && !w.nb->immediate.cells,
       "when home ends, nobody waits for the table any more");
    world_close(&w);
    open_at_home(&w, &clock);
    call(&w, 7, "%%distribute\nf()");
    call(&w, 8, "%ranks");
    world_close(&w); /* what waits is freed */
}

static void tables_that_ask_no_node(void)
{
    struct span m = { .kind = SPAN_CALL, .cell = 1 };
    struct clock clock;
    struct world w;

    open_at_home(&w, &clock);
    call(&w, 7, "%%distribute\nf()");
    m.v[F_CALL_TEXT].s = slice_text("%ranks");
    m.v[F_CALL_FLAGS].u64 = CALL_UNMEASURED;
    m.v[F_CALL_CALL].u64 = 8;
    say(&w, SPAN_WORKER_HOME, m);
    ok(times(&w, "send RETURN 1") == 1 && sent(&w, "\"state\"") && !times(&w, "send GAUGES"),
       "the table comes at once, and no node is asked, if the call wants no use of memory");
    call(&w, 9, "%ranks");
    m.v[F_CALL_CALL].u64 = 10;
    say(&w, SPAN_WORKER_HOME, m);
    ok(times(&w, "send RETURN 1") == 2 && times(&w, "send GAUGES") == 1 && w.nb->immediate.cells,
       "it does not wait either for the answer that another table waits for");
    both_return(&w);
    pass(&w, 3 * NS_PER_S);
    world_close(&w);
}

/* The engine of a line is looked for at once, and nothing of the line runs. */
static void lines_that_are_only_checked(void)
{
    struct span m = { .kind = SPAN_CALL, .cell = 1 };
    struct clock clock;
    struct world w;

    open_at_home(&w, &clock);
    call(&w, 7, "%%distribute\nf()");
    m.v[F_CALL_FLAGS].u64 = CALL_CHECKED;
    m.v[F_CALL_TEXT].s = slice_text("%%distribute --on pair:2\npass");
    m.v[F_CALL_CALL].u64 = 8;
    say(&w, SPAN_WORKER_HOME, m);
    ok(times(&w, "send RETURN 1") == 1 && sent(&w, "ok") && !times(&w, "engine start") &&
           !w.nb->immediate.cells,
       "a line is checked while a call runs, and its engine does not start");
    w.no_engine = true;
    m.v[F_CALL_CALL].u64 = 9;
    say(&w, SPAN_WORKER_HOME, m);
    ok(times(&w, "send RETURN 1") == 2 && sent(&w, "there is no engine pair"),
       "an engine that does not exist is named");
    both_return(&w);
    m.v[F_CALL_TEXT].s = slice_text("%%distribute --on pair:\npass");
    m.v[F_CALL_CALL].u64 = 10;
    say(&w, SPAN_WORKER_HOME, m);
    ok(sent(&w, "nothing follows the colon") && !w.nb->immediate.cells,
       "and so is a mistake in the line, also while nothing runs");
    world_close(&w);
}

static bool asks_for_call(const struct world *w, uint64_t number)
{
    struct span m;
    struct err err;
    bool same;

    if (span_decode(&m, w->sent.p, w->sent.n, &err) < 0)
        return false;
    same = m.kind == SPAN_CAPTURE && m.v[F_CAPTURE_CALL].u64 == number;
    span_release(&m);
    return same;
}

static void home_is_told_whose_variables_it_looks_for(void)
{
    struct span m = { .kind = SPAN_CALL, .cell = 1 };
    struct clock clock;
    struct world w;

    open_at_home(&w, &clock);
    m.v[F_CALL_TEXT].s = slice_text("%push x");
    m.v[F_CALL_FLAGS].u64 = CALL_SHOWN;
    m.v[F_CALL_CALL].u64 = 7;
    say(&w, SPAN_WORKER_HOME, m);
    ok(asks_for_call(&w, 7), "home is told for which of its calls");
    world_close(&w);
    world_open_idle(&w, &clock);
    run(&w, "%push x");
    ok(asks_for_call(&w, 0), "and that a client's cell is none");
    world_close(&w);
}

int main(void)
{
    small_values_come_with_return();
    a_value_that_did_not_come();
    several_at_once();
    ports_for_calls_in_a_row();
    a_call_that_fails_brings_news_of_variables();
    what_ranks_bind_stays_newer();
    a_call_ends_that_comes_after_its_interrupt();
    home_ends();
    tables_while_ranks_run();
    tables_that_ask_no_node();
    lines_that_are_only_checked();
    home_is_told_whose_variables_it_looks_for();
    return plan_done();
}
