/* SPDX-License-Identifier: BSD-3-Clause */
/* %ranks where: who is asked, and what is shown. */
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

static const char in_reduce[] =
    "Thread 0x01 (most recent call first):\n  File \"/x/thread.py\", line 3 in wait\n\n"
    "Current thread 0x02 (most recent call first):\n"
    "  File \"/x/torch/c10d.py\", line 2810 in all_reduce\n"
    "  File \"<ipython-input-1-0123456789ab>\", line 5 in <module>\n"
    "  File \"/x/cellspan/_worker/rank.py\", line 80 in _run\n";
static const char in_script[] =
    "Current thread 0x02 (most recent call first):\n"
    "  File \"train.py\", line 7 in step\n  File \"train.py\", line 9 in <module>\n"
    "  File \"<frozen runpy>\", line 88 in _run_code\n"
    "  File \"/x/cellspan/_worker/scripts.py\", line 137 in run_file\n";

static const char in_c[] = "Current thread 0x02 (most recent call first):\n"
                           "  File \"/x/cellspan/_worker/map_rank.py\", line 243 in _call\n"
                           "  File \"/x/cellspan/_worker/rank_calls.py\", line 20 in call\n";

/* With a debugger attached. */
static const char in_debugged[] =
    "Current thread 0x02 (most recent call first):\n"
    "  File \"/x/debugpy/_vendored/pydevd/pydevd.py\", line 20 in do_wait_suspend\n"
    "  File \"/tmp/cellspan_run/3350977461.py\", line 5 in f\n"
    "  File \"/tmp/cellspan_run/3350977461.py\", line 7 in <module>\n"
    "  File \"/x/IPython/core/interactiveshell.py\", line 3577 in run_code\n"
    "  File \"/x/cellspan/_worker/rank.py\", line 80 in _run\n";

/* Opens a world in which two ranks run a cell, and both are there. */
static void two_are_at(struct world *w, struct clock *clock, const char *text)
{
    world_open(w, clock);
    begin_two(w);
    buf_clear(&w->log);
    run(w, "%ranks where");
    stack(w, 3, w->last.cell, text);
    stack(w, 2, w->last.cell, text);
}

static void where_names_a_function_in_c(void)
{
    struct clock clock;
    struct world w;

    two_are_at(&w, &clock, in_c);
    ok(logged(&w, "[0-1] a function in C\\n") && !strstr(w.log.p, "_worker/"),
       "where a call runs a function in C, no frame of cellspan is shown");
    world_close(&w);
}

static void where_tells_the_cells_of_a_debugger(void)
{
    struct clock clock;
    struct world w;

    two_are_at(&w, &clock, in_debugged);
    ok(logged(&w, "[0-1] f, line 5 of a cell\\n"), "cells have other file names for a debugger");
    ok(logged(&w, "line 7 in <module>") && !strstr(w.log.p, "_vendored") &&
           !strstr(w.log.p, "interactiveshell"),
       "frames of the debugger and of IPython are left out");
    world_close(&w);
}

static void where_is_answered_while_a_cell_runs(void)
{
    struct clock clock;
    struct world w;
    uint64_t id;

    world_open(&w, &clock);
    begin_two(&w);
    run(&w, "1+1");
    buf_clear(&w.log);
    run(&w, "%ranks where");
    id = w.last.cell;
    ok(in_order(&w, "busy", "\"code\":\"%ranks where\"") && logged(&w, "\"execution_count\":2") &&
           logged(&w, "send STACKS 2 3"),
       "%%ranks where is answered while cells wait in the queue");
    stack(&w, 2, w.nb->cells->id, in_reduce);
    ok(!strstr(w.log.p, "publish stream"),
       "a stack that was asked for by somebody else is ignored");
    stack(&w, 2, id, in_reduce);
    stack(&w, 3, id, in_reduce);
    ok(logged(&w, "[0-1] all_reduce (c10d.py:2810), called in line 5 of cell 1\\n") &&
           logged(&w, "line 2810 in all_reduce\\n"),
       "equal stacks of ranks are shown once");
    ok(!strstr(w.log.p, "/rank.py") && !strstr(w.log.p, "thread.py"),
       "frames of cellspan and of other threads are left out");
    ok(in_order(&w, "publish stream",
                "reply execute_reply {\"status\":\"ok\",\"execution_count\":2") &&
           logged(&w, "idle"),
       "%%ranks where gets its reply, and idle follows");
    ok(w.nb->cells && w.nb->queue.n == 1, "the running cell and the queue are not changed");
    buf_clear(&w.log);
    done(&w, 3, "ok", "", "");
    run(&w, "%ranks where -r 0-1");
    stack(&w, 2, w.last.cell, in_script);
    ok(logged(&w, "[0] step (train.py:7)\\n") && logged(&w, "line 9 in <module>\\n[1] idle\\n") &&
           !strstr(w.log.p, "runpy"),
       "idle ranks are named as idle, and frames of scripts are shown without runpy");
    buf_clear(&w.log);
    run(&w, "%ranks where -r 0");
    stack(&w, 2, w.last.cell,
          "Current thread 0x02 (most recent call first):\n  File \"train.py\", line 7 in step\n"
          "\nNCCL says:\nNCCL #0-0 (27a0): 1 rank launched 64 AllReduce\n");
    ok(logged(
           &w,
           "[0] step (train.py:7)\\n      File \\\"train.py\\\", line 7 in step\\nNCCL #0-0 (27a0): 1 rank launched 64 AllReduce\\n\""),
       "NCCL's lines stand below the stack");
    buf_clear(&w.log);
    run(&w, "%ranks where -r 7");
    ok(logged(&w, "UsageError") && logged(&w, "\"execution_count\":5"),
       "%%ranks where with a rank that does not exist is refused");
    buf_clear(&w.log);
    run(&w, "%ranks where");
    pass(&w, 4 * NS_PER_S);
    ok(logged(&w, "[0] no answer from its node (here)\\n[1] idle"),
       "a rank that does not answer is named after a time limit");
    end_two(&w);
    ok(logged(&w, "send REQUEST 1"), "when the cell ends, the next cell of the queue begins");
    world_close(&w);
}

static void where_is_a_cell_when_nothing_runs(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%ranks where");
    ok(logged(&w, "there are no ranks\\n") && logged(&w, "execute_reply") && !w.nb->cells,
       "%%ranks where without ranks says so");
    begin_two(&w);
    end_two(&w);
    buf_clear(&w.log);
    run(&w, "%ranks where");
    ok(logged(&w, "[0-1] idle\\n") && !strstr(w.log.p, "STACKS") && !w.nb->cells,
       "idle ranks are not asked for their stacks");
    buf_clear(&w.log);
    run(&w, "x = 1");
    run(&w, "%ranks where -r 0");
    ok(!strstr(w.log.p, "idle\\n"), "%%ranks where after a cell of home waits for that cell");
    world_close(&w);
}

int main(void)
{
    where_is_answered_while_a_cell_runs();
    where_tells_the_cells_of_a_debugger();
    where_names_a_function_in_c();
    where_is_a_cell_when_nothing_runs();
    return plan_done();
}
