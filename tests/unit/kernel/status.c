/* SPDX-License-Identifier: BSD-3-Clause */
/* %ranks, and the display below a cell that runs for a while: which questions are asked when, and
 * what is shown. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

static const char gpus[] =
    "{\"gpus\": [{\"uuid\": \"GPU-a\", \"index\": 0, \"used\": 1073741824, \"total\": 85899345920, \"use\": 93, "
    "\"others\": 1}, {\"uuid\": \"GPU-bcdefghijklmnop\", \"used\": 0, \"total\": 85899345920, \"use\": null}], "
    "\"workers\": [{\"worker\": 2, \"memory\": 240123904, \"gpus\": [\"GPU-a\"]}, "
    "{\"worker\": 3, \"memory\": 1024, \"gpus\": [\"GPU-bcdefghijklmnop\"]}]}";

static void gauges(struct world *w, const char *text)
{
    struct span m = { .kind = SPAN_GAUGES };

    m.v[F_GAUGES_GAUGES].s = slice_text(text);
    say(w, SPAN_WORKER_NONE, m);
}

/* ---- others on a GPU ---- */

static const char crowded[] =
    "{\"gpus\": [{\"uuid\": \"GPU-a\", \"index\": 0, \"used\": 73014444032, \"total\": 85899345920, \"use\": 93, "
    "\"others\": [{\"pid\": 7, \"memory\": null, \"who\": \"bob's jax\"}, "
    "{\"pid\": 4711, \"memory\": 73014444032, \"who\": \"alice's python\"}]}, "
    "{\"uuid\": \"GPU-b\", \"index\": 1, \"others\": [{\"pid\": 8, \"memory\": 1048576, \"who\": null}]}], "
    "\"workers\": [{\"worker\": 2, \"memory\": 1, \"gpus\": [\"GPU-a\"]}, "
    "{\"worker\": 3, \"memory\": 1, \"gpus\": [\"GPU-b\"]}]}";

static void others_on_a_gpu_are_named(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    pass(&w, 2 * NS_PER_S);
    gauges(&w, crowded);
    buf_clear(&w.log);
    pass(&w, NS_PER_S);
    ok(logged(&w, "display_data") && logged(&w, "alice's python 68 GiB, 1 more") &&
           logged(&w, "pid 8 1.0 MiB"),
       "the status under a cell names other processes on a GPU");
    end_two(&w);
    buf_clear(&w.log);
    run(&w, "%ranks");
    gauges(&w, crowded);
    ok(logged(&w, "others on it") && logged(&w, "alice's python 68 GiB, 1 more") &&
           logged(&w, "pid 8 1.0 MiB"),
       "%%ranks names other processes on a GPU");
    world_close(&w);
}

/* ---- the table ---- */

static void the_table_waits_for_nodes_but_not_long(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%ranks");
    ok(logged(&w, "group default: no ranks") && !w.nb->cells,
       "%%ranks without ranks is answered at once");
    begin_two(&w);
    end_two(&w);
    buf_clear(&w.log);
    run(&w, "%ranks");
    ok(times(&w, "send GAUGES node 0") == 1 && !strstr(w.log.p, "display_data"),
       "%%ranks asks the node once and waits for its answer");
    gauges(&w, gpus);
    ok(logged(&w, "229 MiB") && logged(&w, "1.0 GiB of 80 GiB") && logged(&w, "93 %") &&
           logged(&w, "others on it"),
       "the node's memory and GPU use are in the table");
    ok(logged(&w, "GPU-bcdefghi ") && logged(&w, "text/html") &&
           in_order(&w, "display_data", "execute_reply"),
       "the table comes as text and HTML before the reply");
    buf_clear(&w.log);
    pass(&w, 20 * NS_PER_S);
    run(&w, "%ranks");
    pass(&w, NS_PER_S / 2);
    ok(!strstr(w.log.p, "display_data"), "a node that does not answer is waited for");
    pass(&w, NS_PER_S / 2);
    ok(logged(&w, "display_data") && !strstr(w.log.p, "80 GiB") && !w.nb->cells,
       "after a second the table is shown without that node's figures");
    buf_clear(&w.log);
    gauges(&w, "[nonsense");
    gauges(
        &w,
        "{\"gpus\": 7, \"workers\": [{\"worker\": 2, \"gpus\": [null, \"x\"], \"memory\": -4}]}");
    run(&w, "%ranks");
    gauges(
        &w,
        "{\"gpus\": 7, \"workers\": [{\"worker\": 2, \"gpus\": [null, \"x\"], \"memory\": -4}]}");
    ok(logged(&w, "display_data"),
       "an answer of a node that is no valid JSON, or has wrong types, does no harm");
    world_close(&w);
}

static void the_table_forgets_a_larger_world(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    end_two(&w);
    exited(&w, 3, 1, 9);
    run(&w, "%ranks");
    gauges(&w, gpus);
    ok(logged(&w, "group default: 2 ranks") && logged(&w, "dead"),
       "a dead rank is shown in the table while it belongs to the world");
    run(&w, "%%distribute --fresh -n 1\npass");
    captured(&w, "{\"names\": []}");
    exited(&w, 2, 1, 15);
    ready(&w, 4);
    dispatch_interrupt(w.nb);
    buf_clear(&w.log);
    run(&w, "%ranks");
    gauges(&w, gpus);
    ok(logged(&w, "group default: 1 rank") && !strstr(w.log.p, "dead"),
       "after --fresh with fewer ranks, the dead rank is not shown");
    world_close(&w);
}

static void an_interrupt_ends_the_wait(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    end_two(&w);
    run(&w, "%ranks");
    dispatch_interrupt(w.nb);
    ok(logged(&w, "%ranks was interrupted") && !w.nb->cells,
       "%%ranks that waits for a node can be interrupted");
    pass(&w, 2 * NS_PER_S);
    gauges(&w, gpus);
    ok(!strstr(w.log.p, "display_data"), "its table is not shown later");
    run(&w, "%ranks restart");
    dispatch_interrupt(w.nb);
    ok(logged(&w, "ranks that have ended are started by the next cell"),
       "an interrupted %%ranks restart says that the ended ranks are started by the next cell");
    world_close(&w);
}

/* ---- the live status ---- */

static void a_long_cell_shows_its_ranks(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    pass(&w, 1900 * NS_PER_MS);
    ok(!strstr(w.log.p, "display_data"), "there is no status before two seconds");
    pass(&w, 100 * NS_PER_MS);
    ok(times(&w, "publish display_data") == 1 &&
           logged(&w, "ranks 0-1 running 0:02 (here), as of 2") && logged(&w, "send GAUGES node 0"),
       "after two seconds there is a status, and nodes are asked for their figures");
    ok(logged(&w, "text/html") && !strstr(w.log.p, "text/plain"),
       "the first status is HTML only, since a terminal could not update it");
    gauges(&w, gpus);
    ok(times(&w, "display_data") == 1, "figures of nodes are shown with the next update");
    pass(&w, NS_PER_S);
    ok(times(&w, "publish update_display_data") == 1 && logged(&w, "93 %") &&
           logged(&w, "text/plain"),
       "a second later the status is updated, with the figures");
    pass(&w, NS_PER_S);
    ok(times(&w, "send GAUGES node 0") == 2, "nodes with GPUs are asked every two seconds");
    done(&w, 3, "ok", "", "");
    ok(times(&w, "publish update_display_data") == 2, "a rank that ends causes no extra update");
    pass(&w, NS_PER_S);
    ok(logged(&w, "1 running, 1 done"), "the next update shows that it has ended");
    buf_clear(&w.log);
    done(&w, 2, "ok", "", "{\"data\":{\"text/plain\":\"7\"},\"metadata\":{}}");
    ok(logged(&w, "ranks 0-1 done in 0:05") &&
           in_order(&w, "update_display_data", "execute_result"),
       "at the end the status becomes one line, above the result");
    pass(&w, 5 * NS_PER_S);
    ok(times(&w, "display_data") == 1 && w.due == NEVER,
       "after the cell there are no more updates");
    world_close(&w);
}

static void a_rank_is_suspended(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    pass(&w, 2 * NS_PER_S);
    gauges(&w, "{\"workers\": [{\"worker\": 2, \"suspended\": false}, "
               "{\"worker\": 3, \"suspended\": true}]}");
    pass(&w, NS_PER_S);
    ok(logged(&w, "rank 0 running 0:03 (here), as of 2") &&
           logged(&w, "\\nrank 1 suspended (here)"),
       "the status names a rank whose process is stopped");
    buf_clear(&w.log);
    pass(&w, 10 * NS_PER_S);
    ok(logged(&w, "\\nrank 1 suspended (here)"), "until its agent says that it goes on");
    gauges(&w, "{\"workers\": [{\"worker\": 3, \"suspended\": false}]}");
    buf_clear(&w.log);
    pass(&w, NS_PER_S);
    ok(logged(&w, "ranks 0-1 running 0:14 (here), as of 2"), "then it runs");
    gauges(&w, "{\"workers\": [{\"worker\": 3, \"suspended\": true}]}");
    done(&w, 3, "ok", "", "");
    buf_clear(&w.log);
    pass(&w, NS_PER_S);
    ok(logged(&w, "\\nrank 1 done (here)"), "a rank that has ended the cell is done");
    done(&w, 2, "ok", "", "");
    world_close(&w);
}

static void a_cell_that_waits_for_variables_says_so(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    w.expected = 64 << 20;
    w.had = 16 << 20;
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "ranks 0-1 receiving 25 % of 64 MiB (here)") && !logged(&w, "MiB 0:02"),
       "while variables are on their way, the status shows how much has come, and no running time");
    ok(logged(&w, "sending data (16 of 64 MiB, 0:02), as of 2") &&
           logged(&w, "value=\\\"16\\\" max=\\\"64\\\""),
       "above that, how much has come to all nodes, also as a bar");
    w.had = UINT64_MAX;
    pass(&w, NS_PER_S);
    ok(logged(&w, "ranks 0-1 receiving 64 MiB (here)"),
       "if the progress is not known, the status shows only the size");
    done(&w, 3, "ok", "", "");
    w.expected = w.had = 0;
    pass(&w, NS_PER_S);
    ok(logged(&w, "rank 0 running 0:04 (here), as of 2") && logged(&w, "\\nrank 1 done (here)"),
       "when the variables are there, the status shows the running time");
    done(&w, 2, "ok", "", "");
    world_close(&w);
}

/* ranks: how many are up */
static void starting_shows(struct world *w, uint32_t first, const char *up)
{
    pass(w, 2 * NS_PER_S);
    ok(logged(w, "starting Python (0:02), as of 2") && times(w, "publish display_data") == 1,
       "in the third second of the cell, a status says what is awaited");
    ready(w, first);
    pass(w, NS_PER_S);
    ok(logged(w, up) && logged(w, "max="), "which ranks are up, also as a bar");
}

static void a_driver_that_does_not_answer_is_named(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.silent = true;
    run(&w, "%%distribute -n 2\nx");
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "waiting for the GPU driver (0:02)"),
       "the status says that GPUs are not known yet");
    world_close(&w);
}

static void a_cell_whose_ranks_start_says_so(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    run(&w, "%%distribute -n 2\nx");
    starting_shows(&w, 2, "rank 0 of 2 is up (0:03)");
    buf_clear(&w.log);
    dispatch_interrupt(w.nb);
    ok(in_order(&w, "publish clear_output", "execute_reply") && !strstr(w.log.p, "display_data"),
       "a cell that ends meanwhile keeps no status");
    world_close(&w);
}

/* With home's output under it, nothing may be cleared. */
static void the_status_of_a_start_is_not_kept(bool printed)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    run(&w, "%%distribute -n 2\nx");
    starting_shows(&w, 2, "rank 0 of 2 is up (0:03)");
    if (printed)
        publish_stream(w.nb, w.nb->cells->from.request, 1, slice_text("from home"));
    buf_clear(&w.log);
    provide(&w);
    ready(&w, 3);
    ok(times(&w, "publish clear_output") == !printed,
       "when ranks begin, the status of their start is cleared%s",
       printed ? " (not with output)" : "");
    done(&w, 3, "ok", "", "");
    done(&w, 2, "ok", "", "");
    ok(times(&w, "publish update_display_data") == printed && !logged(&w, "done in"),
       "a cell that runs for a short time keeps no status%s", printed ? " (an empty display)" : "");
    world_close(&w);
}

static void what_has_come_to_some_nodes_counts(void)
{
    struct clock clock;
    struct world w;

    open_two(&w, &clock);
    run(&w, "%%distribute\nprint(x)");
    captured(&w, CAPTURES_X);
    port(&w);
    w.expected = UINT64_C(3) << 30;
    w.had = UINT64_C(1) << 30;
    packed(&w, w.nb->cells->id, "");
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "sending data (2.0 of 6.0 GiB, 0:02)"), "two nodes get twice the data");
    w.has_all = 1;
    pass(&w, NS_PER_S);
    ok(logged(&w, "sending data (4.0 of 6.0 GiB, 0:03)") &&
           logged(&w, "ranks 0-1 running 0:03 (h1)\\nranks 2-3 receiving 33 % of 3072 MiB (h2)"),
       "what one of them has already counts until the other one has it, too");
    w.expected = w.had = 0;
    pass(&w, NS_PER_S);
    ok(logged(&w, "ranks 0-3 running 0:04 (h1, h2)"), "then the ranks run");
    world_close(&w);
}

static void a_push_shows_what_it_sends(void)
{
    struct clock clock;
    struct world w;

    world_open_idle(&w, &clock);
    run(&w, "%push x");
    captured(&w, CAPTURES_X);
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, "packing variables (0:02)"), "%%push has a status, too: what home does");
    w.expected = UINT64_C(10) << 30;
    w.had = 0;
    packed(&w, w.nb->cells->id, "");
    ok(!times(&w, "clear_output"), "which goes on when data is sent");
    w.had = UINT64_C(900) << 20;
    pass(&w, NS_PER_S);
    ok(logged(&w, "sending data (900 MiB of 10 GiB, 0:01)"), "how much has come");
    w.expected = w.had = 0;
    pass(&w, NS_PER_S);
    ok(logged(&w, "loading variables (0:02)"), "and that ranks load it");
    buf_clear(&w.log);
    all_done(&w, 2, 3);
    ok(!w.nb->cells && times(&w, "clear_output") == 1 && !logged(&w, "done in"),
       "nothing of that stays");
    world_close(&w);
}

static void without_gpus_nobody_is_asked_again(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    pass(&w, 2 * NS_PER_S);
    gauges(&w, "{\"gpus\": [], \"workers\": []}");
    for (unsigned k = 0; k < 30; k++)
        pass(&w, NS_PER_S);
    ok(times(&w, "send GAUGES") == 1 && times(&w, "update_display_data") == 30,
       "a machine without GPUs is asked for figures only once");
    world_close(&w);
}

static void a_failure_stays_in_the_status(void)
{
    static const char *const error =
        "{\"ename\":\"ValueError\",\"evalue\":\"v\",\"traceback\":[\"line\"]}";
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    pass(&w, 2 * NS_PER_S);
    done(&w, 3, "error", error, "");
    pass(&w, 300 * NS_PER_MS);
    buf_clear(&w.log);
    done(&w, 2, "error", "{\"ename\":\"KeyboardInterrupt\",\"evalue\":\"\",\"traceback\":[]}", "");
    ok(logged(&w, ">rank 0 interrupted, rank 1 failed in 0:02</div>") &&
           in_order(&w, "update_display_data", "execute_reply"),
       "after a failure the status stays as one line that names the failed rank");
    world_close(&w);
}

static void what_switches_it_off(void)
{
    struct clock clock;
    struct world w;
    struct span clear = { .kind = SPAN_PUBLISH };

    world_config.status = false;
    world_open(&w, &clock);
    world_config.status = true;
    begin_two(&w);
    pass(&w, 3 * NS_PER_S);
    ok(!strstr(w.log.p, "display_data"), "CELLSPAN_STATUS=off shows no status");
    world_close(&w);
    world_open(&w, &clock);
    begin_two(&w);
    pass(&w, 3 * NS_PER_S);
    ok(times(&w, "publish display_data") == 1,
       "with the setting on there is a status (the test's condition)");
    clear.v[F_PUBLISH_TYPE].s = slice_text("clear_output");
    clear.v[F_PUBLISH_CONTENT].s = slice_text("{\"wait\":true}");
    say(&w, 2, clear);
    pass(&w, 3 * NS_PER_S);
    ok(times(&w, "display_data") == 1,
       "after a rank has cleared the output, the status is not drawn again");
    world_close(&w);
}

static void line(struct world *w, unsigned flags, const char *text)
{
    struct span m = { .kind = SPAN_LINES, .v[F_LINES_STREAM].u64 = 2 };

    m.v[F_LINES_FLAGS].u64 = flags;
    m.v[F_LINES_DATA].s = slice_text(text);
    say(w, 2, m);
    pass(w, 3 * NS_PER_S);
}

static void a_server_that_runs_cells_gets_no_update(void)
{
    struct clock clock;
    struct world w;

    world_config.server = 7; /* as requests.c has it in their ids */
    world_open(&w, &clock);
    begin_two(&w);
    line(&w, LINES_PROGRESS, "\r 10%");
    line(&w, LINES_PROGRESS, "\r 20%");
    ok(!strstr(w.log.p, "display_data"), "no status, and no bar that goes on");
    end_two(&w);
    ok(logged(&w, "20%") && !strstr(w.log.p, "10%") && !strstr(w.log.p, "update_display"),
       "at the end the last state of the bar");
    buf_clear(&w.log);
    run(&w, "%%distribute --merge panel\nprint(1)");
    provide(&w);
    line(&w, 0, "a line\n");
    end_two(&w);
    ok(!strstr(w.log.p, "display_data") && logged(&w, "a line"), "no tabs, but lines");
    world_config.server = 0;
    world_close(&w);
}

static void the_end_of_the_job(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    begin_two(&w);
    w.node[0].ends_ns = w.now + 700 * NS_PER_S;
    pass(&w, 3 * NS_PER_S);
    ok(strstr(w.log.p, "display_data") && !strstr(w.log.p, "ends in"),
       "the end of the job is not shown while it is far");
    buf_clear(&w.log);
    pass(&w, 98 * NS_PER_S);
    ok(logged(&w, "ends in 0:09:59"), "its last ten minutes are");
    world_close(&w);
}

static void prints(struct world *w, uint32_t worker, const char *text)
{
    struct span m = { .kind = SPAN_LINES, .v[F_LINES_STREAM].u64 = 1 };

    m.v[F_LINES_DATA].s = slice_text(text);
    say(w, worker, m);
}

static void clears_and_prints(struct world *w, uint32_t worker, const char *text)
{
    publishes(w, worker, "clear_output", "{\"wait\": true}");
    prints(w, worker, text);
}

static void a_second(struct world *w)
{
    for (unsigned k = 0; k < 10; k++)
        pass(w, NS_PER_S / 10);
}

/* A page can only be cleared as a whole. */
static void what_another_rank_shows_comes_again(void)
{
    char *large = malloc((1u << 20) + 1);
    struct clock clock;
    struct world w;

    if (!large)
        abort();
    memset(large, 'x', 1u << 20);
    memcpy(large + (1u << 20) - 1, "\n", 2);
    world_open(&w, &clock);
    begin_two(&w);
    clears_and_prints(&w, 3, "of one\n");
    clears_and_prints(&w, 2, "early\n");
    a_second(&w);
    buf_clear(&w.log);
    clears_and_prints(&w, 2, "later\n");
    a_second(&w);
    ok(times(&w, "publish clear_output") == 1 && in_order(&w, "clear_output", "of one") &&
           in_order(&w, "clear_output", "later") && !strstr(w.log.p, "early"),
       "a rank clears its own lines, and those of the other one are shown again");
    for (unsigned k = 0; k < 16; k++)
        k ? prints(&w, 3, large) : clears_and_prints(&w, 3, large);
    a_second(&w);
    clears_and_prints(&w, 2, "last\n");
    buf_clear(&w.log);
    a_second(&w);
    a_second(&w);
    a_second(&w);
    ok(times(&w, "publish clear_output") == 1 && logged(&w, "last"),
       "after much that was shown again, it takes some seconds at most");
    world_close(&w);
    free(large);
}

int main(void)
{
    others_on_a_gpu_are_named();
    the_table_waits_for_nodes_but_not_long();
    the_table_forgets_a_larger_world();
    an_interrupt_ends_the_wait();
    a_long_cell_shows_its_ranks();
    a_rank_is_suspended();
    a_cell_that_waits_for_variables_says_so();
    what_has_come_to_some_nodes_counts();
    a_push_shows_what_it_sends();
    without_gpus_nobody_is_asked_again();
    a_driver_that_does_not_answer_is_named();
    a_cell_whose_ranks_start_says_so();
    the_status_of_a_start_is_not_kept(false);
    the_status_of_a_start_is_not_kept(true);
    a_failure_stays_in_the_status();
    what_switches_it_off();
    a_server_that_runs_cells_gets_no_update();
    the_end_of_the_job();
    what_another_rank_shows_comes_again();
    return plan_done();
}
