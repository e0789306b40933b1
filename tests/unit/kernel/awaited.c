/* SPDX-License-Identifier: BSD-3-Clause */
/* What can't begin because of calls that run: what it shows meanwhile, and how an interrupt ends
 * it. */
#include <stdio.h>

#include "tests/unit/kernel/thread_calls.h"
#include "tests/unit/tap.h"

#define ID "cellspan-status-waits"

static void a_cell_on_ranks(void)
{
    struct clock clock;
    struct world w;

    open_in_background(&w, &clock);
    run(&w, "%%distribute\npass");
    buf_clear(&w.log);
    pass(&w, 2 * NS_PER_S - 1);
    ok(!times(&w, ID), "a cell that waits for calls shows nothing for two seconds");
    pass(&w, 1);
    ok(in_order(&w, "busy", ID) && times(&w, "publish execute_input") == 0 &&
           logged(&w,
                  ">waiting for the call f() of a thread on rank 0, and 1 more (0:02), as of 2"),
       "then it says what it waits for");
    pass(&w, NS_PER_S);
    ok(logged(&w, "waiting for the call f() of a thread on rank 0, and 1 more (0:03), as of 2") &&
           times(&w, "{\"display_id\":\"" ID) == 2,
       "and does so again each second, in the same display");
    ends(&w, 7, 2);
    pass(&w, NS_PER_S);
    ok(logged(&w, "waiting for the call f() of a thread on ranks 2-3 (0:04)"),
       "for those that are left");
    buf_clear(&w.log);
    ends(&w, 8, 4);
    ends(&w, 8, 5);
    ok(in_order(&w, "publish clear_output", "publish execute_input") && !w.nb->calls.client,
       "the status is gone when the cell begins");
    provide(&w);
    all_done(&w, 2, 5);
    pass(&w, 5 * NS_PER_S);
    ok(!times(&w, ID) && w.due == NEVER, "and nothing of it is left");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "%%distribute -r 3\npass");
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "waiting for the call f() of a thread on ranks 2-3 (0:02)"),
       "one that names ranks waits for the calls on these");
    world_close(&w); /* what waits is freed */
}

static void who_shows_none(void)
{
    struct clock clock;
    struct world w;

    open_in_background(&w, &clock);
    run(&w, "1 + 1");
    ok(!w.nb->calls.client && w.nb->home.executing, "a cell that begins at once waits for nothing");
    run(&w, "%%distribute\npass");
    pass(&w, 3 * NS_PER_S);
    ok(!times(&w, ID), "nor does one behind another cell show a status");
    world_close(&w);
    open_in_background(&w, &clock);
    call_on(&w, 9, "0");
    pass(&w, 3 * NS_PER_S);
    ok(!times(&w, ID), "nor a call of a thread that waits");
    ask(&w, "execute_request", "{\"code\":\"%%distribute\\npass\",\"silent\":true}");
    pass(&w, 3 * NS_PER_S);
    ok(!times(&w, ID), "nor a silent cell");
    world_close(&w);
    world_config.status = false;
    open_in_background(&w, &clock);
    world_config.status = true;
    run(&w, "%%distribute\npass");
    pass(&w, 3 * NS_PER_S);
    ok(!times(&w, ID), "nor any cell with CELLSPAN_STATUS=off");
    world_close(&w);
    world_config.server = 7;
    open_in_background(&w, &clock);
    run(&w, "%%distribute\npass");
    pass(&w, 3 * NS_PER_S);
    ok(!times(&w, ID), "nor one that a server runs");
    world_config.server = 0;
    world_close(&w);
}

static void a_cell_at_home(void)
{
    struct clock clock;
    struct world w;

    open_four(&w, &clock);
    call_on(&w, 7, "0"); /* its world has no port yet */
    end_at_home(&w);
    run(&w, "1 + 1");
    buf_clear(&w.log);
    pass(&w, 2 * NS_PER_S);
    ok(!w.nb->home.executing && logged(&w, "waiting for the call f() of a thread"),
       "a cell at home waits until the call of a thread has begun");
    dispatch_interrupt(w.nb);
    ok(in_order(&w, "publish clear_output", "home was waiting for a call on the ranks") &&
           cells(&w) == 1 && !times(&w, "send RETURN"),
       "an interrupt ends it, and not the call");
    world_close(&w);
}

static void an_interrupt(void)
{
    struct clock clock;
    struct world w;

    open_in_background(&w, &clock);
    run(&w, "%%distribute\npass");
    run(&w, "1 + 1");
    call_on(&w, 9, "1");
    pass(&w, 2 * NS_PER_S);
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(in_order(&w, "publish clear_output", "publish execute_input") &&
           in_order(&w, "KeyboardInterrupt", "aborted") && w.nb->queue.n == 0,
       "an interrupt ends a cell that waits, and those behind it");
    ok(!times(&w, "send INTERRUPT") && !times(&w, "send RETURN") && cells(&w) == 3,
       "the calls that run go on, and one that waited for the cell begins");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "%ranks stop");
    buf_clear(&w.log);
    pass(&w, 2 * NS_PER_S);
    dispatch_interrupt(w.nb);
    ok(w.nb->queue.n == 1 && logged(&w, "send KILL"),
       "a stop that waits for the calls that it has interrupted goes on: they are interrupted again");
    world_close(&w);
}

/* The main shell's cell makes this call. */
static void call_of_cell(struct world *w, uint64_t number, uint64_t flags)
{
    struct span m = { .kind = SPAN_CALL, .cell = w->nb->home.executing->cell };

    m.v[F_CALL_TEXT].s = slice_text("%%distribute\ng()");
    m.v[F_CALL_FLAGS].u64 = CALL_SHOWN | flags;
    m.v[F_CALL_CALL].u64 = number;
    m.v[F_CALL_NAMES].s = slice_text("{\"names\": []}");
    m.v[F_CALL_LOAD].s = slice_text("(g, (), {})");
    say(w, SPAN_WORKER_HOME, m);
}

static void a_call_of_a_cell(void)
{
    struct clock clock;
    struct world w;

    open_in_background(&w, &clock);
    run(&w, "cellspan.run(g)");
    call_of_cell(&w, 9, CALL_VALUE | CALL_FUNCTION);
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "waiting for the call f() of a thread on rank 0, and 1 more (0:02)"),
       "a cell whose call waits says so, too");
    ends(&w, 7, 2);
    ends(&w, 8, 4);
    buf_clear(&w.log);
    ends(&w, 8, 5);
    ok(times(&w, "publish update_display_data") >= 1 && times(&w, "\"text/plain\":\"\"") == 1 &&
           running(&w, 9),
       "its status gets empty when the call begins");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "cellspan.run(g)");
    call_of_cell(&w, 9, CALL_VALUE | CALL_FUNCTION);
    pass(&w, 2 * NS_PER_S);
    buf_clear(&w.log);
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    ok(in_order(&w, "\"text/plain\":\"\"", "execute_reply"), "also when home dies meanwhile");
    world_close(&w);
    open_in_background(&w, &clock);
    run(&w, "%%px --noblock");
    call_of_cell(&w, 9, CALL_ASYNC);
    pass(&w, 2 * NS_PER_S);
    ok(times(&w, ID) == 1, "a cell that begins a call without waiting for its end says so, too");
    world_close(&w);
}

static void names(void)
{
    static const struct {
        const char *line, *text;
        uint64_t flags;
    } calls[] = {
        { "%%distribute -r 0 --gather\n__import__('x').call(*y)  # train()",
          "the call train() of a thread", CALL_FUNCTION },
        { "%%distribute -r 0\n<lambda>()", "the call &lt;lambda&gt;() of a thread", CALL_FUNCTION },
        { "%%distribute -r 0\nx", "a call of a thread", CALL_FUNCTION },
        { "%%distribute -r 0\nf()", "%%distribute", 0 },
        { "%push x -r 0", "%push", 0 },
    };

    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        struct span m = { .kind = SPAN_CALL, .cell = 1 };
        struct clock clock;
        struct world w;
        char line[128];

        open_four(&w, &clock);
        m.v[F_CALL_TEXT].s = slice_text(calls[k].line);
        m.v[F_CALL_FLAGS].u64 = CALL_SHOWN | CALL_ASYNC | calls[k].flags;
        m.v[F_CALL_CALL].u64 = 7;
        if (calls[k].flags) {
            m.v[F_CALL_NAMES].s = slice_text("{\"names\": []}");
            m.v[F_CALL_LOAD].s = slice_text("(f, (), {})");
        }
        say(&w, SPAN_WORKER_HOME, m);
        provide(&w);
        end_at_home(&w);
        run(&w, "%%distribute\npass");
        pass(&w, 2 * NS_PER_S);
        snprintf(line, sizeof line, ">waiting for %s on rank 0 (0:02)", calls[k].text);
        ok(logged(&w, line), "%s", calls[k].text);
        world_close(&w);
    }
}

static void subshells(void)
{
    struct span m = { .kind = SPAN_CALL };
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    ask(&w, "create_subshell_request", "{}");
    replied(&w, w.last.cell, "ok", "{\"status\":\"ok\",\"subshell_id\":\"run-1\"}");
    ask_in(&w, "run-1", "execute_request", "{\"code\":\"%%distribute\\n1\"}");
    m.cell = w.nb->home.subshells.first->executing->cell;
    m.v[F_CALL_TEXT].s = slice_text("%%distribute\n1");
    m.v[F_CALL_FLAGS].u64 = CALL_SHOWN | CALL_VALUE | CALL_ASYNC;
    m.v[F_CALL_CALL].u64 = 7;
    run(&w, "%%distribute\npass");
    say(&w, SPAN_WORKER_HOME, m);
    buf_clear(&w.log);
    provide(&w);
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "waiting for In [3] on ranks 0-3 (0:02)"),
       "a subshell's cell waits for the main shell's");
    all_done(&w, 2, 5);
    provide(&w);
    run(&w, "%%distribute\npass");
    buf_clear(&w.log);
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "waiting for In [2] of a subshell on ranks 0-3 (0:02)"),
       "and the other way round");
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(in_order(&w, "publish clear_output", "KeyboardInterrupt") && !times(&w, "send INTERRUPT") &&
           cells(&w) == 1,
       "an interrupt ends the one that waits");
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 2 3 4 5"), "the next one the subshell's");
    world_close(&w);
}

int main(void)
{
    a_cell_on_ranks();
    who_shows_none();
    a_cell_at_home();
    an_interrupt();
    a_call_of_a_cell();
    names();
    subshells();
    return plan_done();
}
