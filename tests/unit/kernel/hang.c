/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that wait for one another: the notice, and the failure of a wait without end. */
#include <stdlib.h>

#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

static const char in_sleep[] = "Current thread 0x02 (most recent call first):\n"
                               "  File \"<ipython-input-1-0123456789ab>\", line 4 in <module>\n";
static const char in_torch[] = "Current thread 0x02 (most recent call first):\n"
                               "  File \"/x/torch/distributed/c10d.py\", line 2810 in all_reduce\n"
                               "  File \"<ipython-input-1-0123456789ab>\", line 5 in <module>\n";

static const char on_gpu[] = "Current thread 0x02 (most recent call first):\n"
                             "  File \"/x/torch/cuda/__init__.py\", line 990 in synchronize\n"
                             "  File \"<ipython-input-1-0123456789ab>\", line 5 in <module>\n";

/* What ranks say that have launched collectives in two groups, 0 and 1. */
#define MAIN                  "Current thread 0x02 (most recent call first):\n"
#define CELL                  "  File \"<ipython-input-1-0123456789ab>\", line 5 in <module>\n"
#define FRAME(file, function) "  File \"/x/torch/" file "\", line 979 in " function "\n"
#define COUNTS(all, half)     COMPUTES(all, half, "5000")
#define COMPUTES(all, half, ms)                                                                    \
    "launched 0/2/0000aaaa " all "\nlaunched 1/2/0000bbbb " half "\ncpu " ms "\n"
#define BARRIER_ALONE(n)                                                                           \
    MAIN FRAME("distributed/distributed_c10d.py", "barrier") CELL "launched 0/2/0000aaaa " n       \
                                                                  "\nalone\ncpu 5000\n"
#define BACKWARD MAIN FRAME("autograd/graph.py", "_engine_run_backward") CELL
#define AT_REST  MAIN "  File \"/x/cellspan/_worker/worker.py\", line 90 in wait\n"
static const char idle[] = AT_REST;
static const char in_all_reduce[] = MAIN FRAME("distributed/distributed_c10d.py", "all_reduce")
    CELL;

/* Looks until `s` seconds have gone; the ranks answer with these. NULL: it does not answer. */
static void looks(struct world *w, unsigned s, const char *two, const char *three)
{
    for (unsigned k = 0; k < s / 15; k++) {
        uint64_t asked;

        buf_clear(&w->sent);
        pass(w, 15 * NS_PER_S);
        asked = w->last.cell;
        if (two)
            stack(w, 2, asked, two);
        if (three)
            stack(w, 3, asked, three);
    }
    pass(w, NS_PER_S);
}

static void who_is_waited_for_is_told_once(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 60, in_torch, in_sleep);
    ok(!strstr(w.log.p, "waited"), "there is no notice before ranks have waited for a minute");
    looks(&w, 15, in_torch, in_sleep);
    ok(logged(
           &w,
           "for 61 s rank 0 waited in all_reduce (c10d.py:2810), called in line 5 of cell 1, but rank 1 is in <module>, line 4 of cell 1"),
       "after a minute the notice names the rank that the others wait for");
    buf_clear(&w.log);
    looks(&w, 300, in_torch, in_sleep);
    ok(!strstr(w.log.p, "waited"), "the notice comes only once");
    world_close(&w);
    world_open(&w, &clock);
    begin_two(&w);
    done(&w, 2, "ok", "", "");
    looks(&w, 75, idle, in_all_reduce);
    ok(logged(&w, "rank 1 waited in all_reduce") &&
           logged(
               &w,
               "rank 0 is at the end of the cell already. Ranks that have ended the cell do not join the "
               "collective any more: interrupt the cell. Usually"),
       "the notice also names a rank that has ended the cell already");
    looks(&w, 600, idle, in_all_reduce);
    ok(w.nb->cells && !logged(&w, "TimeoutError"),
       "the cell waits on if nobody says how many collectives were launched");
    world_close(&w);
}

/* all_reduce() of two elements beside one of four may end on the first rank, with a wrong value. */
static void unlike_collectives_are_told(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    done(&w, 2, "ok", "", "");
    looks(&w, 75, AT_REST COUNTS("15", "3"),
          MAIN FRAME("distributed/distributed_c10d.py", "all_reduce") CELL COUNTS("15", "3"));
    ok(logged(&w,
              "interrupt the cell. These ranks have launched as many collectives as the others") &&
           !logged(&w, "unequal numbers of batches"),
       "ranks that have launched equally many had no unequal numbers of batches");
    world_close(&w);
}

static void begin_and_end_one(struct world *w, struct clock *clock)
{
    world_open(w, clock);
    begin_two(w);
    done(w, 2, "ok", "", "");
}

static void a_wait_without_end_fails(void)
{
    static const char behind[] = AT_REST COUNTS("14", "3"), ahead[] = BACKWARD COUNTS("15", "3");
    struct clock clock;
    struct world w;

    begin_and_end_one(&w, &clock);
    looks(&w, 285, behind, ahead);
    ok(logged(
           &w,
           "for 60 s rank 1 waited in _engine_run_backward (graph.py:979), called in line 5 of cell 1, but rank 0 is at the end "
           "of the cell already. Ranks that have ended the cell do not join the collective any more: the cell fails when they have waited for 300 s"),
       "DDP's wait is told, too");
    ok(!logged(&w, "INTERRUPT"), "the cell waits for five minutes");
    looks(&w, 30, behind, ahead);
    ok(logged(&w, "INTERRUPT"), "then the rank is interrupted");
    done(&w, 3, "error", "{\"ename\": \"KeyboardInterrupt\", \"evalue\": \"\", \"traceback\": []}",
         "");
    ok(logged(&w, "TimeoutError") &&
           logged(
               &w,
               "for 301 s rank 1 waited in _engine_run_backward (graph.py:979), called in line 5 of cell 1, but rank 0 "
               "ended the cell without that collective. Usually"),
       "and the cell fails");
    world_close(&w);
}

/* A wait that was told before it was known to have no end is told again. */
static void a_failure_is_announced(void)
{
    static const char before[] = MAIN FRAME("distributed/distributed_c10d.py", "barrier")
        CELL COUNTS("14", "3");
    static const char ahead[] = MAIN FRAME("distributed/distributed_c10d.py", "all_reduce")
        CELL COUNTS("15", "3");
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 600, in_sleep, before);
    ok(logged(&w, "rank 1 waited in barrier") && !logged(&w, "the cell fails"),
       "a wait for a rank that runs is told");
    done(&w, 2, "ok", "", "");
    buf_clear(&w.log);
    looks(&w, 75, AT_REST COUNTS("14", "3"), ahead);
    ok(logged(&w, "the cell fails when they have waited for 300 s") && !logged(&w, "INTERRUPT"),
       "a wait without end is told, though another wait was told before");
    looks(&w, 270, AT_REST COUNTS("14", "3"), ahead);
    ok(logged(&w, "INTERRUPT"), "and ends");
    world_close(&w);
}

/* A rank that has moved since the announcement waits anew. */
static void each_wait_is_announced(void)
{
    static const char behind[] = AT_REST COUNTS("14", "3"), ahead[] = BACKWARD COUNTS("14", "4"),
                      later[] = BACKWARD COUNTS("14", "5");
    struct clock clock;
    struct world w;

    begin_and_end_one(&w, &clock);
    looks(&w, 15, behind, ahead);
    ok(logged(&w, "send STACKS 2 3"), "ranks that have ended the cell are asked, too");
    looks(&w, 75, behind, ahead);
    ok(logged(&w, "the cell fails when they have waited for 300 s"),
       "a subgroup's collectives are compared, too");
    buf_clear(&w.log);
    looks(&w, 45, behind, later);
    ok(!logged(&w, "the cell fails"), "a rank that has moved has not waited long");
    looks(&w, 30, behind, later);
    ok(logged(&w, "the cell fails when they have waited for 300 s"), "then its wait is told");
    looks(&w, 210, behind, later);
    ok(!logged(&w, "INTERRUPT"), "and lasts");
    looks(&w, 45, behind, later);
    ok(logged(&w, "INTERRUPT"), "for five minutes");
    world_close(&w);
    begin_and_end_one(&w, &clock);
    looks(&w, 30, behind, ahead);
    looks(&w, 600, NULL, ahead);
    ok(!logged(&w, "the cell fails"), "an answer to an earlier look does not count");
    world_close(&w);
}

/* Looks for twenty minutes. One rank may have ended. */
static void goes_on(bool ended, const char *two, const char *three, const char *name)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    if (ended)
        done(&w, 2, "ok", "", "");
    looks(&w, 1200, two, three);
    ok(!logged(&w, "INTERRUPT") && !logged(&w, "the cell fails"), "%s", name);
    world_close(&w);
}

static void what_may_end_does_not_fail(void)
{
    static const char *const computes[] = { BACKWARD COMPUTES("15", "3", "10000"),
                                            BACKWARD COMPUTES("15", "3", "20000"),
                                            BACKWARD COMPUTES("15", "3", "30000"),
                                            BACKWARD COMPUTES("15", "3", "40000") };
    struct clock clock;
    struct world w;

    goes_on(true, AT_REST COUNTS("15", "3"), BACKWARD COUNTS("15", "3"),
            "the cell goes on if an ended rank has launched as many collectives");
    goes_on(true, AT_REST COUNTS("16", "4"), BACKWARD COUNTS("15", "3"),
            "and if it has launched more");
    goes_on(false, BACKWARD COUNTS("14", "3"), BACKWARD COUNTS("15", "3"),
            "and if the other rank still runs");
    goes_on(true, AT_REST COUNTS("14", "3"), MAIN CELL COUNTS("15", "3"),
            "and if the rank that is ahead runs code of the user's");
    goes_on(true, AT_REST COUNTS("14", "3"),
            MAIN FRAME("distributed/distributed_c10d.py", "recv") CELL COUNTS("15", "3"),
            "and if it receives from a rank");
    goes_on(true, AT_REST COUNTS("14", "3"),
            MAIN FRAME("nn/modules/linear.py", "forward")
                FRAME("distributed/elastic/multiprocessing/errors/__init__.py", "wrapper")
                    CELL COUNTS("15", "3"),
            "and if it computes, called by torch.distributed");
    goes_on(true, AT_REST COUNTS("14", "3"),
            MAIN FRAME("cuda/__init__.py", "synchronize") CELL COUNTS("15", "3"),
            "and if it waits for a GPU");
    goes_on(true, AT_REST "launched 1/2/0000aaaa 3\n", BACKWARD "launched 0/2/0000aaaa 15\n",
            "and if the ended rank is in other groups");
    goes_on(true, AT_REST, BACKWARD COUNTS("15", "3"), "and if the ended rank does not count");
    goes_on(true, AT_REST COUNTS("14", "3"), BACKWARD, "and if the rank that runs does not");
    goes_on(true, NULL, BACKWARD COUNTS("15", "3"), "and if the ended rank does not answer");
    goes_on(true, AT_REST "background\n" COUNTS("14", "3"), BACKWARD COUNTS("15", "3"),
            "and if threads of the ended rank go on");
    goes_on(true, AT_REST COUNTS("14", "3"), BACKWARD "launched 0/2/0000aaaa 15\n",
            "and if nobody knows whether backward() computes");
    begin_and_end_one(&w, &clock);
    for (unsigned k = 0; k < 40; k++)
        looks(&w, 15, AT_REST COUNTS("14", "3"), computes[k % 4]);
    ok(!strstr(w.log.p, "waited"), "backward() that computes is no wait");
    world_close(&w);
    begin_and_end_one(&w, &clock);
    for (unsigned k = 0; k < 80; k++)
        looks(&w, 15, k % 2 ? AT_REST COUNTS("14", "3") : AT_REST COUNTS("14", "4"),
              BACKWARD COUNTS("15", "5"));
    ok(!logged(&w, "INTERRUPT"),
       "the cell goes on while a rank that has ended it launches collectives");
    world_close(&w);
    world_open(&w, &clock);
    begin_two(&w);
    for (unsigned k = 0; k < 20; k++)
        looks(&w, 15, k % 2 ? BACKWARD COUNTS("16", "3") : BACKWARD COUNTS("17", "3"),
              k % 2 ? BACKWARD COUNTS("16", "3") : BACKWARD COUNTS("18", "3"));
    ok(!strstr(w.log.p, "waited"), "ranks that launch collectives in a loop do not wait");
    world_close(&w);
}

/* Both ranks run, each alone in its only group; see collectives_differ(). */
#define ALONE(n)          ALONE_IN("2", n)
#define ALONE_IN(size, n) "launched 0/" size "/0000aaaa " n "\nalone\ncpu 5000\n"
#define IN(function)      MAIN FRAME("distributed/distributed_c10d.py", function) CELL
#define DDP               "nn/parallel/distributed.py"
#define IN_DDP            MAIN FRAME(DDP, "_pre_forward") CELL

static void fails_of(const char *two, const char *three, const char *name)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 285, two, three);
    ok(!logged(&w, "INTERRUPT") && logged(&w, "different collectives of one process group"),
       "%s: it is told first", name);
    looks(&w, 60, two, three);
    ok(logged(&w, "INTERRUPT"), "%s: the cell fails", name);
    done(&w, 2, "error", "{\"ename\": \"KeyboardInterrupt\", \"evalue\": \"\", \"traceback\": []}",
         "");
    done(&w, 3, "error", "{\"ename\": \"KeyboardInterrupt\", \"evalue\": \"\", \"traceback\": []}",
         "");
    ok(logged(&w, "TimeoutError") && logged(&w, "one rank alone must call model.module"),
       "%s: the error says what to call", name);
    world_close(&w);
}

static void ranks_in_different_collectives_fail(void)
{
    fails_of(IN_DDP ALONE("8"), IN("barrier") ALONE("8"), "DDP and a barrier");
    fails_of(IN("all_reduce") ALONE("8"), IN("broadcast") ALONE("8"), "two operations");
    fails_of(IN_DDP ALONE("9"), IN("barrier") ALONE("8"), "DDP, which launches several");
    fails_of(IN_DDP ALONE("8"), IN("all_gather") ALONE("8"), "forward() and another collective");
    fails_of(MAIN FRAME(DDP, "_distributed_broadcast_coalesced") CELL ALONE("8"),
             IN("all_reduce") ALONE("8"), "buffers of forward() and another collective");
    goes_on(false, MAIN FRAME(DDP, "__init__") CELL ALONE("8"), IN("all_reduce") ALONE("8"),
            "the cell goes on if it may be the same operation");
    goes_on(false, IN_DDP ALONE("8"), IN("broadcast") ALONE("8"), "and so it does in forward()");
    goes_on(false, IN("barrier") ALONE("8"), IN("barrier") ALONE("8"), "and if it is the same");
    goes_on(false, IN("barrier") ALONE("9"), IN("all_reduce") ALONE("8"),
            "and if data may still move");
    goes_on(false, IN("all_reduce") ALONE("9"), IN("broadcast") ALONE("8"),
            "and if the counts differ otherwise");
    goes_on(false, IN_DDP COUNTS("8", "3"), IN("barrier") COUNTS("8", "3"),
            "and if there are subgroups");
    goes_on(false, MAIN CELL ALONE("8"), IN("barrier") ALONE("8"),
            "and if a rank waits for async work, or computes");
    goes_on(false, IN("recv") ALONE("8"), IN("barrier") ALONE("8"), "and if a rank receives");
    goes_on(false, IN("all_reduce") "launched 0/2/0000aaaa 8\ncpu 5000\n", IN("barrier") ALONE("8"),
            "and if a rank has sent or received before");
    goes_on(false, IN("all_reduce") "background\n" ALONE("8"), IN("barrier") ALONE("8"),
            "and if threads or tasks may launch some");
    goes_on(false, IN("all_reduce") "launched 0/2/0000aaaa 8\nalone\ncpu 0\n",
            IN("barrier") ALONE("8"), "and if a GPU may compute");
    goes_on(false, IN("all_reduce") ALONE_IN("3", "8"), IN("barrier") ALONE_IN("3", "8"),
            "and if a rank of the group does not run the cell");
    goes_on(true, AT_REST ALONE("8"), IN("barrier") ALONE("8"), "and if a rank has ended the cell");
}

/* An answer from before its rank ended the cell says nothing of what it has launched since. */
static void an_old_answer_does_not_count(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    for (unsigned k = 0; k < 40; k++) {
        const bool last = k == 39;

        pass(&w, 15 * NS_PER_S);
        stack(&w, 2, w.last.cell, MAIN CELL COUNTS("14", "3"));
        if (last)
            done(&w, 2, "ok", "", "");
        stack(&w, 3, w.last.cell, BACKWARD COUNTS("15", "3"));
    }
    ok(!logged(&w, "the cell fails") && !logged(&w, "INTERRUPT"),
       "a rank that has ended the cell after its answer does not count");
    world_close(&w);
}

/* DDP of a rank that waits for one that runs; of two ended ranks, the one behind counts. */
static void the_wait_of_ddp_is_told(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 75, MAIN CELL COUNTS("14", "3"), BACKWARD COUNTS("15", "3"));
    ok(logged(
           &w,
           "rank 1 waited in _engine_run_backward (graph.py:979), called in line 5 of cell 1, but rank 0 is in <module>, "
           "line 5 of cell 1 (%ranks"),
       "DDP's wait for a rank that runs is told");
    world_close(&w);
    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 150, MAIN CELL COUNTS("15", "3"), BACKWARD COUNTS("15", "3"));
    ok(!strstr(w.log.p, "waited"), "backward() that waits for nobody is no wait");
    world_close(&w);
}

static void an_ended_rank_that_is_silent_keeps_no_notice_back(void)
{
    struct clock clock;
    struct world w;

    begin_and_end_one(&w, &clock);
    looks(&w, 105, NULL, in_all_reduce);
    ok(logged(&w, "rank 1 waited in all_reduce") && logged(&w, "interrupt the cell"),
       "the notice does not wait for answers of ranks that have ended the cell");
    world_close(&w);
}

static void all_at_one_place_are_told(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 60, in_torch, in_torch);
    ok(!strstr(w.log.p, "waited"),
       "there is no notice before a minute, if all ranks wait at one place");
    looks(&w, 150, in_torch, in_torch);
    ok(logged(
           &w,
           "for 61 s ranks 0-1 waited in all_reduce (c10d.py:2810), called in line 5 of cell 1, and no rank of this cell is "
           "elsewhere (%ranks where shows all stacks)"),
       "the notice says that all ranks wait in the same collective");
    end_two(&w);
    buf_clear(&w.log);
    run(&w, "%%distribute -n 1\npass");
    captured(&w, "{\"names\": []}");
    port(&w);
    for (unsigned k = 0; k < 6; k++) {
        pass(&w, 15 * NS_PER_S);
        stack(&w, 2, w.last.cell, in_torch);
    }
    ok(logged(&w, "for 60 s rank 0 waited in") &&
           logged(&w, "elsewhere; rank 1 does not run this cell, whose world has 1 (%ranks"),
       "the notice names ranks that do not run this cell");
    world_close(&w);
}

/* The wait for a GPU has no frame of torch's. */
static void nccl_tells_who_is_behind(void)
{
    static const char behind[] =
        "Current thread 0x02 (most recent call first):\n"
        "  File \"<ipython-input-1-0123456789ab>\", line 4 in <module>\n"
        "\nNCCL says:\nNCCL #0-0 (78db): rank 0 launched 64 AllReduce; rank 1 launched 60 AllReduce\n";
    static const char equal[] =
        "Current thread 0x02 (most recent call first):\n"
        "  File \"<ipython-input-1-0123456789ab>\", line 4 in <module>\n"
        "\nNCCL says:\nNCCL: in each communicator all ranks have launched equally many operations\n";
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 150, equal, in_sleep);
    ok(!strstr(w.log.p, "fewer NCCL"),
       "ranks that have launched equally many NCCL operations cause no notice");
    looks(&w, 75, behind, in_sleep);
    ok(logged(
           &w,
           "for 151 s no rank has made progress, and some have launched fewer NCCL operations than others: NCCL #0-0 (78db): rank 0 launched 64 AllReduce; rank 1 "
           "launched 60 AllReduce (%ranks where shows all stacks)"),
       "if ranks have launched unequal numbers of NCCL operations, the notice quotes NCCL");
    world_close(&w);
}

static void what_is_no_hang(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 150, in_sleep, in_sleep);
    ok(!strstr(w.log.p, "waited"), "ranks that compute cause no notice");
    looks(&w, 150, on_gpu, on_gpu);
    ok(!strstr(w.log.p, "waited"), "ranks that wait for their GPU cause no notice");
    for (unsigned k = 0; k < 20; k++)
        looks(&w, 15, k % 3 ? in_torch : in_sleep, in_sleep);
    ok(!strstr(w.log.p, "waited"), "ranks whose place changes cause no notice");
    world_close(&w);
    world_config.hang_notice_ns = 0;
    world_open(&w, &clock);
    world_config.hang_notice_ns = 60 * NS_PER_S;
    begin_two(&w);
    pass(&w, 100 * NS_PER_S);
    ok(!strstr(w.log.p, "STACKS"), "CELLSPAN_HANG_NOTICE=off asks no rank for its stack");
    world_close(&w);
}

static void ranks_that_are_stopped_are_told(void)
{
    static const char stopped[] =
        "(it is suspended, as by SIGSTOP: kill -CONT 4711 lets it go on)\n";
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 60, in_sleep, stopped);
    ok(!logged(&w, "been suspended"), "there is no notice before a rank was stopped for a minute");
    looks(&w, 15, in_sleep, stopped);
    ok(logged(&w, "for over 61 s rank 1 has been suspended, as by SIGSTOP: kill -CONT ") &&
           !logged(&w, "waited"),
       "the notice names the rank that is stopped");
    buf_clear(&w.log);
    looks(&w, 150, in_torch, stopped);
    ok(!logged(&w, "been suspended") && !logged(&w, "waited"),
       "it comes once, and that others wait for the rank goes without saying");
    looks(&w, 15, in_torch, in_torch);
    looks(&w, 75, stopped, stopped);
    ok(logged(&w, "for over 60 s ranks 0-1 have been suspended"),
       "a rank that is stopped again is told");
    looks(&w, 15, in_torch, in_torch);
    looks(&w, 15, stopped, stopped);
    pass(&w, 100 * NS_PER_S); /* the kernel itself was late */
    looks(&w, 15, stopped, stopped);
    ok(logged(&w, "for 116 s nothing was heard of ranks 0-1"),
       "the time that has passed is told, not the limit");
    world_close(&w);
}

static void ranks_of_which_nothing_is_heard_are_told(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    looks(&w, 60, in_sleep, NULL);
    ok(!logged(&w, "heard"), "there is no notice before a minute");
    looks(&w, 30, in_sleep, NULL);
    ok(logged(&w, "for 61 s nothing was heard of rank 1: cellspan-agent may be stopped there"),
       "after it, a rank is named for which no agent answers");
    buf_clear(&w.log);
    looks(&w, 150, in_sleep, NULL);
    ok(!logged(&w, "heard"), "the notice comes once");
    world_close(&w);
}

/* Of two ranks, rank 1 runs a cell. */
static void begin_one_of_two(struct world *w, struct clock *clock)
{
    world_open(w, clock);
    begin_two(w);
    end_two(w);
    buf_clear(&w->log);
    run(w, "%%distribute -r 1\npass");
    captured(w, "{\"names\": []}");
    port(w);
}

/* Samples every three seconds: rank 1 answers with this. */
static void soon(struct world *w, unsigned n, const char *three)
{
    while (n-- > 0) {
        buf_clear(&w->sent);
        pass(w, 3 * NS_PER_S);
        stack(w, 3, w->last.cell, three);
    }
}

static void a_wait_for_ranks_that_do_not_run_the_cell_is_told_soon(void)
{
    static const char all[] = BARRIER_ALONE("3"),
                      half[] = MAIN FRAME("distributed/distributed_c10d.py", "barrier") CELL
                      "launched 1/1/0000bbbb 3\nalone\ncpu 5000\n";
    static const char joins[] = MAIN
        "  File \"/usr/threading.py\", line 629 in wait\n"
        "  File \"/x/cellspan/_worker/store_waits.py\", line 105 in _host\n" FRAME(
            "distributed/rendezvous.py", "_create_c10d_store") CELL;
    static const char joins_again[] = MAIN
        "  File \"/x/cellspan/_worker/torch_rendezvous.py\", line 340 in _is_closed\n" FRAME(
            "distributed/distributed_c10d.py", "init_process_group") CELL;
    struct clock clock;
    struct world w;

    begin_one_of_two(&w, &clock);
    soon(&w, 3, all);
    ok(logged(
           &w,
           "for 6 s rank 1 waited in barrier (distributed_c10d.py:979), called in line 5 of cell 1, and no rank of this cell is "
           "elsewhere; rank 0 does not run this cell. All ranks of a process group must call it"),
       "a collective of the whole world in a cell of one rank is told after five seconds");
    buf_clear(&w.log);
    looks(&w, 150, NULL, all);
    ok(!logged(&w, "waited"), "and once");
    world_close(&w);
    begin_one_of_two(&w, &clock);
    soon(&w, 6, half);
    ok(!logged(&w, "waited"), "a collective of the cell's own ranks is none of these");
    world_close(&w);
    begin_one_of_two(&w, &clock);
    soon(&w, 3, joins);
    ok(logged(&w, "rank 1 waited in _create_c10d_store (rendezvous.py:979), called in line 5"),
       "nor does a process group come about; the frame that waits for C++ is not shown");
    world_close(&w);
    begin_one_of_two(&w, &clock);
    soon(&w, 3, joins_again);
    ok(logged(&w,
              "rank 1 waited in init_process_group (distributed_c10d.py:979), called in line 5") &&
           logged(&w, "All ranks of a process group must call it"),
       "nor does one that is made again");
    world_close(&w);
}

int main(void)
{
    a_wait_for_ranks_that_do_not_run_the_cell_is_told_soon();
    ranks_that_are_stopped_are_told();
    ranks_of_which_nothing_is_heard_are_told();
    who_is_waited_for_is_told_once();
    all_at_one_place_are_told();
    the_wait_of_ddp_is_told();
    an_ended_rank_that_is_silent_keeps_no_notice_back();
    a_wait_without_end_fails();
    a_failure_is_announced();
    each_wait_is_announced();
    what_may_end_does_not_fail();
    an_old_answer_does_not_count();
    ranks_in_different_collectives_fail();
    unlike_collectives_are_told();
    nccl_tells_who_is_behind();
    what_is_no_hang();
    return plan_done();
}
