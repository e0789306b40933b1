/* SPDX-License-Identifier: BSD-3-Clause */
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
       "a plain cell is sent to home, then clients get busy and execute_input");
    ok(times(&w, "send REQUEST") == 1, "the next cell is not sent while home runs this one");
    replied(&w, 1, "ok", "{\"status\":\"ok\"}");
    ok(in_order(&w, "reply execute_reply {\"status\":\"ok\"}", "idle"),
       "home's reply is passed on to the client, and idle follows");
    ok(in_order(&w, "idle", "send REQUEST 1"), "the waiting cell is sent to home after that");
    run(&w, "3+3");
    replied(&w, 2, "error", "{\"status\":\"error\"}");
    ok(logged(&w, "reply execute_reply {\"status\":\"aborted\"}"),
       "when a cell fails, the cells that wait behind it are aborted");
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
    ok(logged(&w, "killed by signal 11 (SIGSEGV)"),
       "when a signal kills home, the error names the signal");
    ok(logged(&w, "\"ename\":\"HomeDied\"") && logged(&w, "last words"),
       "the error is a HomeDied and shows home's last lines on stderr");
    ok(logged(&w, "send START 1"), "a new home is started");
    ok(in_order(&w, "reply execute_reply", "idle") && !w.nb->home.executing,
       "the cell is over and was answered");
    world_close(&w);

    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, "crash()");
    buf_clear(&w.log);
    w.asks = "x";
    exited(&w, SPAN_WORKER_HOME, 1, 11);
    ok(logged(&w, "drain") && w.nb->home.asked && !times(&w, "reply complete_reply"),
       "what is asked before the client has read of the death is for the new home");
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
            "Thread 0x4 (most recent call first):\n"
            "  File \"/lib/cellspan/_jupyter/history.py\", line 78 in _save\n"
            "  File \"/lib/threading.py\", line 982 in run\n"
            "  File \"/lib/threading.py\", line 1045 in _bootstrap_inner\n\n"
            "Thread 0x2 (most recent call first):\n  File \"/data/load.py\", line 5 in load\n\n"
            "Current thread 0x1 (most recent call first):\n"
            "  File \"<ipython-input-1-a>\", line 1 in <module>\n"
            "  File \"/lib/cellspan/_worker/home.py\", line 7 in run\n\n"
            "C stack (most recent call first):\n/lib/libc.so.6(abort)\n");
    ok(in_order(&w, "Segmentation fault", "Current thread 0x1"),
       "the crash report begins with the kind of crash");
    ok(in_order(&w, "Current thread 0x1", "load.py"),
       "the thread that crashed comes before the user's other threads");
    ok(in_order(&w, "load.py", "libc.so.6"), "the C stack comes last");
    ok(!logged(&w, "aborts.py") && !logged(&w, "history.py") && !logged(&w, "threading.py") &&
           !logged(&w, "home.py"),
       "frames of cellspan's own files are left out");
    world_close(&w);
}

static void of_a_call_the_frames_below_the_users_function_are_left_out(void)
{
    static const char in_function[] =
        "Current thread 0x1 (most recent call first):\n"
        "  File \"/data/parse.py\", line 3 in parse\n"
        "  File \"/x/cellspan/_worker/map_rank.py\", line 243 in _call\n"
        "  File \"/x/cellspan/_worker/rank_calls.py\", line 20 in call\n"
        "  File \"/x/cellspan/_worker/worker.py\", line 440 in _around\n"
        "  File \"<frozen runpy>\", line 88 in _run_code\n";
    static const char in_script[] =
        "Current thread 0x1 (most recent call first):\n  File \"train.py\", line 9 in <module>\n"
        "  File \"<frozen runpy>\", line 88 in _run_code\n"
        "  File \"<frozen runpy>\", line 291 in run_path\n"
        "  File \"/x/cellspan/_worker/scripts.py\", line 137 in run_file\n";
    static const char in_c[] = "Current thread 0x1 (most recent call first):\n"
                               "  File \"/x/cellspan/_worker/rank_calls.py\", line 20 in call\n"
                               "  File \"/x/cellspan/_worker/rank.py\", line 205 in _call\n";
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    crashed(&w, 2, in_function);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "line 3 in parse") && !logged(&w, "_worker/") && !logged(&w, "runpy"),
       "of a call, the frames below the user's function are left out");
    world_close(&w);
    world_open(&w, &clock);
    begin_two(&w);
    crashed(&w, 2, in_script);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "train.py") && !logged(&w, "_worker/") && !logged(&w, "runpy"),
       "and of a script those below the script");
    world_close(&w);
    world_open(&w, &clock);
    begin_two(&w);
    crashed(&w, 2, in_c);
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "<a function in C>") && !logged(&w, "_worker/"), "a function in C is named so");
    world_close(&w);
}

static void of_a_c_stack_the_innermost_frames_are_shown(void)
{
    struct clock clock;
    struct world w;
    struct buf text = BUF_INIT;
    int rc = buf_add_text(&text, "Fatal Python error: Segmentation fault\n\n"
                                 "Thread 0x2 (most recent call first):\n  <no Python frame>\n\n"
                                 "Current thread 0x1 (most recent call first):\n"
                                 "  File \"<ipython-input-1-a>\", line 1 in <module>\n\n"
                                 "C stack (most recent call first):\n");

    for (unsigned i = 0; i < 12 && rc == 0; i++)
        rc = buf_addf(&text, "/lib/frame%u.so(+0x1)[0x%u]\n", i, i);
    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, "crash()");
    if (rc == 0)
        crashed(&w, SPAN_WORKER_HOME, text.p);
    ok(logged(&w, "frame0.so") && logged(&w, "frame9.so") && !logged(&w, "frame10.so"),
       "ten frames");
    ok(logged(&w, "2 more; %ranks logs"), "and where the others are");
    ok(!logged(&w, "no Python frame"), "a thread that runs no Python is left out");
    world_close(&w);
    buf_release(&text);
}

static void frames_that_repeat_are_left_out(void)
{
    struct clock clock;
    struct world w;
    struct buf text = BUF_INIT;
    int rc = buf_add_text(&text, "Fatal Python error: Segmentation fault\n\n"
                                 "Current thread 0x1 (most recent call first):\n");

    for (unsigned i = 0; i < 40 && rc == 0; i++)
        rc = buf_addf(&text, "  File \"<ipython-input-1-a>\", line 2 in walk\n"
                             "  File \"<ipython-input-1-a>\", line 4 in step\n");
    if (rc == 0)
        rc = buf_add_text(&text, "  File \"<ipython-input-1-a>\", line 6 in <module>\n");
    world_open(&w, &clock);
    ready(&w, SPAN_WORKER_HOME);
    run(&w, "crash()");
    if (rc == 0)
        crashed(&w, SPAN_WORKER_HOME, text.p);
    ok(in_order(&w, "in walk", "in step") &&
           in_order(&w, "in step", "[... 78 more frames like these above]"),
       "of frames that repeat, the first ones are shown");
    ok(in_order(&w, "78 more frames", "line 6 in <module>"), "and the number of the others");
    world_close(&w);
    buf_release(&text);
}

static void a_cell_on_ranks(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute -n 2\nprint(x)");
    ok(logged(&w, "send START 2 3") && logged(&w, "send CAPTURE 1") && logged(&w, "send PORT"),
       "START, CAPTURE and PORT are sent at once, none waits for another");
    captured(&w, "{\"names\": [[\"x\", 1, 8, \"\"]]}");
    port(&w);
    ready(&w, 2);
    ok(!strstr(w.log.p, "send PACK"),
       "home is not asked to pack variables before the last rank is ready");
    ready(&w, 3);
    ok(logged(&w, "send PACK 1"),
       "when all ranks are ready, home packs the variables that they lack");
    packed(&w, w.nb->cells->id, "");
    ok(in_order(&w, "send BIND 2 3", "send RUN 2") && in_order(&w, "send RUN 2", "send RUN 3"),
       "both ranks get the variables before RUN, and RUN in the order of ranks");
    done(&w, 3, "ok", "", "");
    ok(!strstr(w.log.p, "execute_reply"), "the cell does not end while a rank still runs it");
    done(&w, 2, "ok", "", "{\"data\":{\"text/plain\":\"7\"},\"metadata\":{}}");
    ok(in_order(&w, "publish execute_result {\"execution_count\":1,\"data\":{\"text/plain\":\"7\"}",
                "reply execute_reply"),
       "the result of rank 0 is published as the cell's, before the reply");
    buf_clear(&w.log);
    run(&w, "%%distribute\nprint(x)");
    captured(&w, "{\"names\": [[\"x\", 1, 8, \"\"]]}");
    port(&w);
    ok(!strstr(w.log.p, "START") && !strstr(w.log.p, "PACK") && logged(&w, "send RUN 2"),
       "the next cell starts no ranks and packs no variables that the ranks have");
    world_close(&w);
}

static void usage_errors(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute -n 0\npass");
    ok(logged(&w, "\"ename\":\"UsageError\"") && !strstr(w.log.p, "START"),
       "a cell with a usage error starts no ranks");
    run(&w, "%pull x");
    ok(logged(&w, "there are no ranks yet"), "%%pull without ranks is refused");
    run(&w, "%%distribute -n gpu\npass");
    ok(logged(&w, "there is no GPU on here"), "-n gpu is refused on a machine without GPUs");
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
       "the error is not shown at once, since other ranks may fail with the same error");
    pass(&w, 300 * NS_PER_MS);
    ok(logged(&w, "ZeroDivisionError") && logged(&w, "on rank 0 of 2"),
       "after 0.2 s the error is shown and names its rank");
    ok(in_order(&w, "publish error", "send INTERRUPT 3"),
       "then the rank that still runs is interrupted");
    pass(&w, 400 * NS_PER_MS);
    ok(logged(&w, "send CUT_RANKS 2 3"), "a rank that does not stop is cut off from the others");
    pass(&w, 11 * NS_PER_S);
    ok(logged(&w, "send STACKS 3"), "a rank that still does not stop is asked for its stack");
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "send KILL 3"), "after that it is killed");
    exited(&w, 3, 1, 9);
    ok(in_order(&w, "rank 1 is dead: its variables are gone", "reply execute_reply") &&
           !w.nb->cells,
       "the cell is over and was answered");
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
       "the error says which signal killed the rank, on which host, and its pid");
    done(&w, 2, "error", "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}", "");
    ok(logged(&w, "\"ename\":\"RankDied\"") && !w.nb->cells,
       "the KeyboardInterrupt of the other rank is not reported beside RankDied");
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    ok(logged(&w, "send START 4") && !strstr(w.log.p, "START 4 5"),
       "the next cell starts only the rank that died");
    captured(&w, "{\"names\": []}");
    port(&w);
    ready(&w, 4);
    done(&w, 2, "ok", "", "");
    done(&w, 4, "ok", "", "");
    ok(logged(&w, "rank 1 is new: its variables are gone"),
       "a line says that the variables of the new rank are gone");
    world_close(&w);
}

static void interrupts(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send INTERRUPT 2 3"), "an interrupt is sent to all ranks of the cell");
    buf_clear(&w.log);
    w.now += 300 * NS_PER_MS;
    dispatch_interrupt(w.nb);
    ok(!strstr(w.log.p ? w.log.p : "", "KILL"),
       "a second interrupt within a second does not kill the ranks");
    w.now += NS_PER_S;
    dispatch_interrupt(w.nb);
    ok(logged(&w, "send KILL 2 3"), "a second interrupt after a second kills the ranks");
    exited(&w, 2, 1, 9);
    exited(&w, 3, 1, 9);
    ok(logged(&w, "reply execute_reply") && !w.nb->cells,
       "the cell ends when the killed ranks have ended");
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
       "when the agent dies, the cell says so, and the agent is started again");
    pass(&w, 300 * NS_PER_MS);
    ok(!w.nb->cells && w.nb->group->rank[0].state == RANK_DEAD,
       "the ranks of the agent that died count as dead");
    world_close(&w);
}

static void questions(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    prompted(&w, 2, "name? ");
    ok(logged(&w, "ask [0] name? "), "input() on a rank shows its prompt, with the rank's label");
    ask(&w, "input_reply", "{\"value\":\"Ada\"}");
    ok(logged(&w, "send INPUT_REPLY 2"), "the answer is sent to the rank that asked");
    ask(&w, "input_reply", "{\"value\":\"again\"}");
    ok(!in_order(&w, "INPUT_REPLY 2", "INPUT_REPLY"), "a second answer is not sent to it");
    ask(&w, "kernel_info_request", "{}");
    ok(logged(&w, "reply kernel_info_reply"),
       "kernel_info_request is answered while ranks run a cell");
    ask(&w, "shutdown_request", "{\"restart\":false}");
    ok(w.ended && logged(&w, "publish shutdown_reply"),
       "shutdown_request ends the kernel while ranks run a cell");
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
    of_a_call_the_frames_below_the_users_function_are_left_out();
    of_a_c_stack_the_innermost_frames_are_shown();
    frames_that_repeat_are_left_out();
    a_cell_on_ranks();
    usage_errors();
    failures();
    deaths();
    interrupts();
    lost_agents();
    questions();
    return plan_done();
}
