/* Cells with doubles of all callbacks: which messages are sent to whom, in which order, and what
 * the client gets. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

/* ---- what is proven ---- */

static void home_cells(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "1+1");
    run(&w, "2+2");
    ok(in_order(&w, "send REQUEST 1", "busy") && in_order(&w, "busy", "publish execute_input"),
       "a cell goes home, then clients hear of it");
    ok(times(&w, "send REQUEST") == 1, "and the next waits for it");
    replied(&w, 1, "ok", "{\"status\":\"ok\"}");
    ok(in_order(&w, "reply execute_reply {\"status\":\"ok\"}", "idle"),
       "its reply is passed on, then idle");
    ok(in_order(&w, "idle", "send REQUEST 1"), "then the next begins");
    run(&w, "3+3");
    replied(&w, 2, "error", "{\"status\":\"error\"}");
    ok(logged(&w, "reply execute_reply {\"status\":\"aborted\"}"), "an error aborts what waits");
    world_close(&w);
}

static void home_dies(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, "crash()");
    exited(&w, SPAN_WORKER_HOME, 1, 11);
    ok(logged(&w, "killed by signal 11 (SIGSEGV)"), "the error names the signal");
    ok(logged(&w, "\"ename\":\"HomeDied\"") && logged(&w, "last words"),
       "and shows the last words");
    ok(logged(&w, "send START 1"), "a new home starts");
    ok(in_order(&w, "reply execute_reply", "idle") && !w.nb->home.executing,
       "and the cell is over");
    world_close(&w);
}

static void the_thread_that_crashed_comes_first(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, "crash()");
    crashed(&w, SPAN_WORKER_HOME,
            "Fatal Python error: Segmentation fault\n\n"
            "Thread 0x3 (most recent call first):\n"
            "  File \"/lib/cellspan/_worker/aborts.py\", line 33 in _wait\n"
            "  File \"/lib/threading.py\", line 9 in run\n\n"
            "Thread 0x2 (most recent call first):\n  File \"/data/load.py\", line 5 in load\n\n"
            "Current thread 0x1 (most recent call first):\n"
            "  File \"<ipython-input-1-a>\", line 1 in <module>\n"
            "  File \"/lib/cellspan/_worker/home.py\", line 7 in run\n\n"
            "C stack (most recent call first):\n/lib/libc.so.6(abort)\n");
    ok(in_order(&w, "Segmentation fault", "Current thread 0x1"), "what happened comes first");
    ok(in_order(&w, "Current thread 0x1", "load.py"),
       "then the thread that crashed, then the user's others");
    ok(in_order(&w, "load.py", "libc.so.6"), "then the C stack");
    ok(!logged(&w, "aborts.py") && !logged(&w, "threading.py") && !logged(&w, "home.py"),
       "what is cellspan's own is left out");
    world_close(&w);
}

static void a_cell_on_ranks(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute -n 2\nprint(x)");
    ok(logged(&w, "send START 2 3") && logged(&w, "send CAPTURE 1") && logged(&w, "send PORT"),
       "ranks, names and a port are asked for at once");
    captured(&w, "{\"names\": [[\"x\", 1, 8, \"\"]]}");
    port(&w);
    ready(&w, 2);
    ok(!strstr(w.log.p, "send PACK"), "nothing is packed before the last rank is there");
    ready(&w, 3);
    ok(logged(&w, "send PACK 1"), "then home packs what they lack");
    packed(&w, w.nb->cell->id, "");
    ok(in_order(&w, "send BIND 2 3", "send RUN 2") && in_order(&w, "send RUN 2", "send RUN 3"),
       "both get it, then the cell");
    done(&w, 3, "ok", "", "");
    ok(!strstr(w.log.p, "execute_reply"), "one rank alone does not end it");
    done(&w, 2, "ok", "", "{\"data\":{\"text/plain\":\"7\"},\"metadata\":{}}");
    ok(in_order(&w, "publish execute_result {\"execution_count\":1,\"data\":{\"text/plain\":\"7\"}",
                "reply execute_reply"),
       "rank 0's result is the cell's");
    buf_clear(&w.log);
    run(&w, "%%distribute\nprint(x)");
    captured(&w, "{\"names\": [[\"x\", 1, 8, \"\"]]}");
    port(&w);
    ok(!strstr(w.log.p, "START") && !strstr(w.log.p, "PACK") && logged(&w, "send RUN 2"),
       "the next cell costs no start and no shipping");
    world_close(&w);
}

static void usage_errors(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute -n 0\npass");
    ok(logged(&w, "\"ename\":\"UsageError\"") && !strstr(w.log.p, "START"),
       "a usage error starts nothing");
    run(&w, "%pull x");
    ok(logged(&w, "there are no ranks yet"), "nothing can be pulled from nobody");
    run(&w, "%%distribute -n gpu\npass");
    ok(logged(&w, "there is no GPU on here"), "-n gpu needs one");
    world_close(&w);
}

static void failures(void)
{
    static const char *const error =
        "{\"ename\":\"ZeroDivisionError\",\"evalue\":\"division by zero\",\"traceback\":[\"line\"]}";
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    done(&w, 2, "error", error, "");
    ok(!strstr(w.log.p, "publish error"),
       "after the first failure others may fail alike for a moment");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "ZeroDivisionError") && logged(&w, "on rank 0 of 2"),
       "then the error is shown, with its rank");
    ok(in_order(&w, "publish error", "send INTERRUPT 3"), "and who still runs is interrupted");
    pass(&w, 400 * NS_PER_MS);
    ok(logged(&w, "send SEVER 2 3"), "then cut from the others");
    pass(&w, 11 * NS_PER_S);
    ok(logged(&w, "send STACKS 3"), "then asked where it hangs");
    pass(&w, NS_PER_S);
    ok(logged(&w, "send KILL 3"), "then killed");
    exited(&w, 3, 1, 9);
    ok(in_order(&w, "rank 1 is dead: its variables are gone", "reply execute_reply") && !w.nb->cell,
       "and the cell is over");
    world_close(&w);
}

static void deaths(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    exited(&w, 3, 1, 9);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "rank 1 was killed by signal 9 (SIGKILL) (host here, pid 1003)"),
       "a death has its certificate");
    done(&w, 2, "error", "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}", "");
    ok(logged(&w, "\"ename\":\"RankDied\"") && !w.nb->cell,
       "the survivor's interrupt is no second error");
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    ok(logged(&w, "send START 4") && !strstr(w.log.p, "START 4 5"),
       "the next cell starts the missing rank alone");
    captured(&w, "{\"names\": []}");
    port(&w);
    ready(&w, 4);
    done(&w, 2, "ok", "", "");
    done(&w, 4, "ok", "", "");
    ok(logged(&w, "rank 1 is new: its variables are gone"), "and says that its variables are gone");
    world_close(&w);
}

static void interrupts(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 2 3"), "an interrupt reaches every rank");
    buf_clear(&w.log);
    w.now += 300 * NS_PER_MS;
    dispatch_interrupt(w.nb);
    ok(!strstr(w.log.p ? w.log.p : "", "KILL"), "a double click is one interrupt");
    w.now += NS_PER_S;
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send KILL 2 3"), "a second one kills them");
    exited(&w, 2, 1, 9);
    exited(&w, 3, 1, 9);
    ok(logged(&w, "reply execute_reply") && !w.nb->cell, "and the cell ends");
    world_close(&w);
}

static void lost_agents(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    dispatch_lost(w.nb, NODE_HERE, "the agent was killed");
    ok(logged(&w, "revive") && logged(&w, "the agent was killed"),
       "an agent that is lost ends the cell and is started again");
    pass(&w, 300 * NS_PER_MS);
    ok(!w.nb->cell && w.nb->group->rank[0].state == RANK_DEAD, "its ranks are dead");
    world_close(&w);
}

static void questions(void)
{
    struct clock clock;
    struct world w;
    struct span input = { .kind = SPAN_INPUT };

    world_open(&w, &clock);
    begin_two(&w);
    input.v[F_INPUT_PROMPT].s = slice_text("name? ");
    say(&w, 2, input);
    ok(logged(&w, "ask [0] name? "), "a rank asks");
    ask(&w, "input_reply", "{\"value\":\"Ada\"}");
    ok(logged(&w, "send INPUT_REPLY 2"), "and gets the answer");
    ask(&w, "input_reply", "{\"value\":\"again\"}");
    ok(!in_order(&w, "INPUT_REPLY 2", "INPUT_REPLY"), "once");
    ask(&w, "kernel_info_request", "{}");
    ok(logged(&w, "reply kernel_info_reply"), "meanwhile the kernel says who it is");
    ask(&w, "shutdown_request", "{\"restart\":false}");
    ok(w.ended && logged(&w, "publish shutdown_reply"), "and ends when asked");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    home_cells();
    home_dies();
    the_thread_that_crashed_comes_first();
    a_cell_on_ranks();
    usage_errors();
    failures();
    deaths();
    interrupts();
    lost_agents();
    questions();
    return plan_done();
}
