/* SPDX-License-Identifier: BSD-3-Clause */
/* Events at the wrong time: deaths in each state of a cell, interrupts before and after it runs,
 * answers that come late or twice, messages that can't be sent, and requests that arrive during an
 * abort. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

/* ---- aborts ---- */

static void aborts(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    run(&w, "%%distribute\n1/0");
    captured(&w, "{\"names\": []}");
    port(&w);
    w.arrives = "%%distribute\nprint(2)";
    done(&w, 2, "error", "{\"ename\":\"ZeroDivisionError\",\"evalue\":\"\",\"traceback\":[]}", "");
    done(&w, 3, "error", "{\"ename\":\"ZeroDivisionError\",\"evalue\":\"\",\"traceback\":[]}", "");
    ok(!w.nb->cells && times(&w, "send RUN") == 2,
       "a cell that arrives while a cell on ranks fails is not started");
    ok(in_order(&w, "\"status\":\"error\"", "\"status\":\"aborted\""),
       "its aborted reply comes after the reply of the failed cell");
    ok(in_order(&w, "drain", "reply execute_reply") && times(&w, "drain") == 1,
       "requests are read once before the reply, so a cell sent after the reply is not aborted");
    buf_clear(&w.log);
    run(&w, "1/0");
    w.arrives = "2";
    replied(&w, w.nb->home.executing->cell, "error", "{\"status\":\"error\"}");
    ok(!w.nb->home.executing && times(&w, "send REQUEST") == 1 && logged(&w, "aborted"),
       "a cell that arrives while a cell at home fails is aborted, too");
    run(&w, "3");
    ok(times(&w, "send REQUEST") == 2, "a cell that arrives after the failure is started");
    world_close(&w);
}

static void cells_in_a_row(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    run(&w, "1");
    run(&w, "%ranks --help");
    run(&w, "%ranks --help");
    run(&w, "%ranks --help");
    replied(&w, w.nb->home.executing->cell, "ok", "{\"status\":\"ok\"}");
    ok(times(&w, "publish stream") == 3 && !w.nb->cells,
       "several cells that end at once are all answered, one after the other");
    world_close(&w);
}

/* ---- home ---- */

static void home_dies_early(const char *when, const char *code, bool with_names)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    run(&w, code);
    if (with_names) {
        captured(&w, CAPTURES_X);
        port(&w);
    }
    exited(&w, SPAN_WORKER_HOME, 1, 11);
    ok(is_over(&w, "HomeDied"), "a cell fails when home dies while it %s", when);
    ok(times(&w, "send START 1") == 1, "home is started again");
    if (w.blob)
        packed(&w, w.last.cell, "");
    world_close(&w);
}

static void home_dies_late(void)
{
    struct clock clock;
    struct world w;
    struct span value = { .kind = SPAN_DONE, .blob = 77, .blob_size = 10 };

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    begin_two(&w);
    buf_clear(&w.log);
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    ok(w.nb->cells && !times(&w, "execute_reply"),
       "a cell that ranks run does not fail when home dies");
    exited(&w, SPAN_WORKER_HOME, 2, 0);
    done(&w, 3, "ok", "", "");
    value.cell = w.nb->cells->id;
    value.v[F_DONE_STATUS].s = slice_text("ok");
    value.v[F_DONE_CONTENT].s = value.v[F_DONE_RESULT].s = value.v[F_DONE_NOTE].s = slice_text("");
    say(&w, 2, value);
    ok(times(&w, "send START 1") == 2 && in_order(&w, "START 1", "send BIND 1"),
       "the value of that cell waits for the next home and is sent to it");
    exited(&w, SPAN_WORKER_HOME, 2, 0);
    ok(is_over(&w, "HomeNotStarted") && logged(&w, "cancel "),
       "when the next home does not come up either, the cell fails and its value is dropped");
    world_close(&w);
}

static void home_is_broken(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    exited(&w, SPAN_WORKER_HOME, 2, 0);
    ok(!times(&w, "START"), "a home that can't start is not started again without a request");
    run(&w, "%%distribute -n 1\npass");
    ok(in_order(&w, "send START 1", "send CAPTURE 1"),
       "a cell on ranks that needs home starts it again");
    exited(&w, SPAN_WORKER_HOME, 2, 0);
    ok(is_over(&w, "HomeNotStarted"), "the cell fails if home fails to start again");
    run(&w, "1");
    ok(times(&w, "send START 1") == 2 && in_order(&w, "START 1", "send REQUEST 1"),
       "a cell at home starts it again, too");
    ready(&w, SPAN_WORKER_HOME);
    replied(&w, w.nb->home.executing->cell, "ok", "{\"status\":\"ok\"}");
    for (int k = 0; k < 10; k++) {
        if (w.nb->home.state == HOME_STARTING)
            ready(&w, SPAN_WORKER_HOME);
        if (w.nb->home.state == HOME_READY)
            exited(&w, SPAN_WORKER_HOME, 1, 11);
    }
    ok(times(&w, "send START 1") == 2 + DEATHS_MAX && w.nb->home.state == HOME_BROKEN,
       "a home that dies at each start is given up after DEATHS_MAX starts");
    run(&w, "1");
    ok(times(&w, "send START 1") == 3 + DEATHS_MAX, "the next cell starts it once more");
    world_close(&w);
}

/* ---- agents ---- */

static void agents_die(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    for (int k = 0; k < 10; k++)
        dispatch_lost(w.nb, NODE_HERE, "it fell over");
    ok(times(&w, "revive") == DEATHS_MAX,
       "an agent that dies at each start is given up after DEATHS_MAX starts");
    run(&w, "1");
    ok(times(&w, "revive") == DEATHS_MAX + 1 && in_order(&w, "revive", "send REQUEST 1"),
       "the next cell starts the agent once more");
    w.no_agent = true;
    dispatch_lost(w.nb, NODE_HERE, "it fell over");
    ok(is_over(&w, "AgentDied"), "the cell fails if the agent dies again");
    buf_clear(&w.log);
    run(&w, "2");
    ok(!times(&w, "send ") && is_over(&w, "no agent to be had"),
       "if no agent can be started, a cell at home fails with the reason");
    buf_clear(&w.log);
    run(&w, "%%distribute -n 2\npass");
    ok(!times(&w, "send ") && is_over(&w, "no agent to be had"),
       "if no agent can be started, a cell on ranks fails with the reason");
    w.no_agent = false;
    buf_clear(&w.log);
    run(&w, "%%distribute -n 2\npass");
    ok(in_order(&w, "revive", "send START 2 3"),
       "when the agent can be started again, a cell starts it and then its ranks");
    world_close(&w);
}

static void agent_dies_while_ranks_restart(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    exited(&w, 3, 1, 9);
    run(&w, "%ranks restart -r 0");
    dispatch_lost(w.nb, NODE_HERE, "it fell over");
    ok(w.nb->group->rank[1].state == RANK_STARTING && w.nb->group->rank[1].worker,
       "a rank whose start was asked of the new agent does not end with the old agent");
    world_close(&w);
}

/* ---- ranks ---- */

static void ranks_die(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute -n 2\npass");
    exited(&w, 3, 2, 0);
    ok(is_over(&w, "RankNotStarted"), "a rank that does not come up fails its cell");
    ready(&w, 2);
    buf_clear(&w.log);
    run(&w, "%%distribute -n 2\nx");
    ok(logged(&w, "send START 4\n"), "the next cell starts only the rank that did not come up");
    captured(&w, CAPTURES_X);
    port(&w);
    ready(&w, 4);
    exited(&w, 2, 1, 11);
    ok(is_over(&w, "RankDied"), "a rank that dies while home packs variables fails the cell");
    buf_clear(&w.log);
    packed(&w, w.last.cell, "");
    ok(logged(&w, "drop ") && !times(&w, "BIND"),
       "variables that were packed for a failed cell are dropped and not sent");
    world_close(&w);
}

static void rank_dies_at_the_end(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, "%%distribute -n 1 --into y\n1");
    captured(&w, "{\"names\": []}");
    port(&w);
    ready(&w, 2);
    say(&w, 2,
        (struct span){ .kind = SPAN_DONE,
                       .cell = w.nb->cells->id,
                       .blob = 9,
                       .blob_size = 10,
                       .v[F_DONE_STATUS].s = { "ok", 2 } });
    exited(&w, 2, 1, 9);
    ok(w.nb->cells && logged(&w, "no cell was running on it"),
       "a rank that dies after DONE does not fail the cell");
    replied(&w, w.nb->cells->id, "ok", "{\"status\":\"ok\"}");
    ok(is_over(&w, "\"status\":\"ok\""), "that cell ends without an error");
    world_close(&w);
}

static void starts(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, "%%distribute -n 2\npass");
    dispatch_interrupt(w.nb);
    ok(is_over(&w, "KeyboardInterrupt"), "an interrupt ends a cell whose ranks are still starting");
    buf_clear(&w.log);
    run(&w, "%ranks stop");
    ok(logged(&w, "send KILL 2 3") && w.nb->cells,
       "%%ranks stop also ends ranks that are still starting");
    ready(&w, 2);
    exited(&w, 2, 2, 0);
    exited(&w, 3, 2, 0);
    ok(is_over(&w, "\"status\":\"ok\"") && w.nb->group->rank[0].state == RANK_NONE,
       "%%ranks stop ends well, although a rank became ready meanwhile");
    run(&w, "%%distribute -n 2\npass");
    dispatch_interrupt(w.nb);
    buf_clear(&w.log);
    run(&w, "%%distribute -n 2\npass");
    captured(&w, "{\"names\": []}");
    port(&w);
    pass(&w, START_LIMIT_NS - NS_PER_S);
    ready(&w, 4);
    pass(&w, START_LIMIT_NS - NS_PER_S);
    ok(w.nb->cells, "each rank that becomes ready gives the others the whole time limit again");
    pass(&w, 2 * NS_PER_S);
    ok(is_over(&w, "rank 1 did not come up: no rank has for 120 s") && logged(&w, "send KILL 5"),
       "ranks that an earlier cell has started have a time limit in the next cell, too");
    buf_clear(&w.log);
    run(&w, "%%distribute -n 2\npass");
    ok(logged(&w, "send START 6"),
       "the next cell starts new processes for the ranks that were late");
    exited(&w, 5, 1, 9);
    ok(w.nb->cells && w.nb->group->rank[1].worker == 6,
       "the end of the old process does not count as the new rank's death");
    world_close(&w);
}

static void worlds(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    run(&w, "%%distribute -n 1\npass");
    captured(&w, "{\"names\": []}");
    port(&w);
    ok(!times(&w, "START") && logged(&w, "send RUN 2"),
       "a cell with fewer ranks starts no processes and uses the first ranks");
    done(&w, 2, "ok", "", "");
    buf_clear(&w.log);
    run(&w, "%%distribute -n 3\npass");
    ok(logged(&w, "send START 4\n"), "a cell with more ranks starts only the missing ones");
    captured(&w, "{\"names\": []}");
    port(&w);
    ready(&w, 4);
    ok(times(&w, "send RUN") == 2, "then all ranks get RUN");
    world_close(&w);
}

/* ---- interrupts ---- */

static void interrupts(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    ask(&w, "execute_request", "{\"code\":\"%%distribute\\npass\",\"stop_on_error\":false}");
    ask(&w, "execute_request", "{\"code\":\"7\"}");
    dispatch_interrupt(w.nb);
    ok(times(&w, "execute_reply") == 1 && logged(&w, "send REQUEST 1"),
       "after an interrupted cell, the next one begins at once, if the request does not stop on errors");
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(times(&w, "send INTERRUPT 1") == 1, "while home runs a cell, an interrupt is sent to home");
    replied(&w, w.nb->home.executing->cell, "ok", "{\"status\":\"ok\"}");
    buf_clear(&w.log);
    ask(&w, "comm_msg", "{\"comm_id\":\"1\",\"data\":{}}");
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 1"),
       "while home handles a widget's message, an interrupt is sent to home");
    world_close(&w);
}

/* Workers 2 and 3 are done, each with a value. */
static void values_come(struct world *w)
{
    for (uint32_t k = 2; k < 4; k++)
        say(w, k,
            (struct span){ .kind = SPAN_DONE,
                           .cell = w->nb->cells->id,
                           .blob = k,
                           .blob_size = 10,
                           .v[F_DONE_STATUS].s = { "ok", 2 } });
}

static void interrupted_values(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    run(&w, "%pull x y");
    captured(&w, "{\"names\": []}");
    dispatch_interrupt(w.nb);
    values_come(&w);
    ok(!times(&w, "send BIND"), "after an interrupt, %%pull binds nothing at home");
    ok(is_over(&w, "nothing was bound"), "the error of the interrupted %%pull says so");
    buf_clear(&w.log);
    pass(&w, 60 * NS_PER_S);
    ok(!times(&w, "CUT_RANKS") && !times(&w, "KILL") && w.due == NEVER,
       "ranks that answered an interrupted %%pull are not cut off or killed later");
    buf_clear(&w.log);
    run(&w, "%pull x");
    captured(&w, "{\"names\": []}");
    values_come(&w);
    dispatch_interrupt(w.nb);
    ok(is_over(&w, "KeyboardInterrupt"),
       "an interrupt ends %%pull while values are on their way to home");
    ok(times(&w, "cancel 2") == 1 && times(&w, "cancel 3") == 1 && !times(&w, "drop"),
       "the transfers of these values are cancelled");
    world_close(&w);
}

static void begin_call(struct world *w)
{
    run(w, "for k in range(9):\n    %distribute 1");
    called(w, w->nb->home.executing->cell, "%distribute 1");
}

static void home_dies_while_its_call_waits(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, "cellspan.run(f)");
    called(&w, w.nb->home.executing->cell, "%%distribute -n 2 --on slurm:--nodes=1\n1");
    engine(&w, ENGINE_SAYS, "job 7 waits");
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    ok(in_order(&w, "engine stop", "reply execute_reply"),
       "when home dies, the call that waits for an engine ends before home's cell gets its reply");
    ok(!w.nb->cells && !w.nb->home.executing, "the call and home's cell are both over");
    world_close(&w);
}

static void ranks_of_another_cell_do_not_come_up(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    run(&w, "%%distribute -n 4\n1");
    exited(&w, 4, 1, 9);
    ok(is_over(&w, "RankNotStarted"), "a rank that does not come up fails its cell");
    buf_clear(&w.log);
    run(&w, "%%distribute -n 2\n1");
    exited(&w, 5, 1, 9);
    ok(w.nb->cells && !w.nb->cells->bad,
       "a rank that does not come up does not fail the next cell, which runs without it");
    world_close(&w);
}

static void nobody_waits_for_ranks_that_do_not_end(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    run(&w, "%ranks stop");
    dispatch_interrupt(w.nb);
    buf_clear(&w.log);
    run(&w, "%%distribute -n 2 --fresh\npass");
    captured(&w, "{\"names\": []}");
    ok(w.nb->cells && !times(&w, "send START"), "--fresh waits for ranks that are ending");
    pass(&w, STOP_GRACE_MS * NS_PER_MS + LEFT_BEHIND_NS + NS_PER_S);
    ok(logged(&w, "rank 0 (pid ") && logged(&w, "is left behind") && times(&w, "send START") == 1,
       "but not for ever, whichever cell has told them to end");
    world_close(&w);
}

static void ranks_of_a_failed_cell_end_late(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    run(&w, "%%distribute -n 4\n1");
    exited(&w, 4, 1, 9);
    next(&w, "%%distribute\n1");
    ok(logged(&w, "send START 6\n"), "a rank that still starts is not started again");
    exited(&w, 5, 1, 9);
    ok(w.nb->cells && !w.nb->cells->bad && logged(&w, "send START 7\n"),
       "a rank that an earlier cell started, and that ends late, is started by the cell that needs it");
    all_ready(&w, 6, 7);
    provide(&w);
    ok(logged(&w, "send RUN 3 6 7\n"), "the cell runs on all of its ranks");
    all_done(&w, 2, 3);
    all_done(&w, 6, 7);
    ok(!w.nb->cells, "and ends");
    exited(&w, 6, 1, 9);
    next(&w, "%%distribute\n1");
    exited(&w, 8, 1, 9);
    ok(logged(&w, "RankNotStarted") && !logged(&w, "send START 9"),
       "a rank that the cell itself has started fails it");
    world_close(&w);
}

static void a_capture_that_cannot_be_read(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute -n 2\nprint(x)");
    captured(&w, "no JSON");
    ok(is_over(&w, "could not be read"),
       "if home's answer about variables can't be read, the cell fails");
    world_close(&w);
}

static void calls(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    begin_call(&w);
    dispatch_interrupt(w.nb);
    ok(!w.nb->cells && times(&w, "send RETURN 1") == 1,
       "a call that is interrupted before ranks run it returns to home");
    ok(times(&w, "send INTERRUPT") == 1,
       "home's search for variables for that call is interrupted");
    ok(logged(&w, "send START 4 5") && logged(&w, "send KILL 4 5"),
       "the ranks that were started for the call's script are ended");
    all_exited(&w, 4, 5);
    ok(w.nb->home.executing && !times(&w, "execute_reply"),
       "home's cell, which made the call, goes on");
    called(&w, w.nb->home.executing->cell, "%distribute 1");
    captured(&w, "{\"names\": []}");
    port(&w);
    all_ready(&w, 6, 7);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 6 7") && times(&w, "send INTERRUPT 1") == 1,
       "a call that runs is interrupted on its ranks, and home is not");
    called(&w, w.nb->home.executing->cell, "%ranks stop");
    ok(times(&w, "send RETURN 1") == 1 && w.nb->cells && w.nb->calls.first,
       "a second call waits for the end of the first one");
    exited(&w, SPAN_WORKER_HOME, 1, 9);
    ok(times(&w, "execute_reply") == 1 && w.nb->cells,
       "home's death ends home's cell at once; the call goes on until its ranks have ended");
    done(&w, 6, "error", "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}", "");
    done(&w, 7, "ok", "", "");
    ok(w.nb->cells, "a call of a script is not over before the script's processes have ended");
    all_exited(&w, 6, 7);
    ok(!w.nb->cells && !w.nb->calls.first && times(&w, "send RETURN 1") == 1,
       "no RETURN is sent, since the home that waited for it is dead");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    aborts();
    cells_in_a_row();
    home_dies_early("expands the line", "%%distribute -n {2}\nx", false);
    home_dies_early("looks for names", "%%distribute\nx", false);
    home_dies_early("packs them", "%%distribute\nx", true);
    home_dies_early("looks for names before old ranks are stopped", "%%distribute --fresh\nx",
                    false);
    home_dies_late();
    home_is_broken();
    agents_die();
    agent_dies_while_ranks_restart();
    ranks_die();
    rank_dies_at_the_end();
    starts();
    worlds();
    interrupts();
    interrupted_values();
    home_dies_while_its_call_waits();
    ranks_of_another_cell_do_not_come_up();
    nobody_waits_for_ranks_that_do_not_end();
    ranks_of_a_failed_cell_end_late();
    a_capture_that_cannot_be_read();
    calls();
    return plan_done();
}
