/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUs of the machines on which ranks are to start: how many ranks they are for, and what is said
 * if they are too few or not known. */
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define GPU    "{\"uuid\":\"GPU-1\",\"leased_by\":null}"
#define LEASED "{\"uuid\":\"GPU-2\",\"leased_by\":\"pid 7\"}"

static void gpus(void)
{
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.gpus[1] = "{\"gpus\":[" GPU "," LEASED "]}";
    w.gpus[2] = "{\"gpus\":[" GPU "]}";
    run(&w, "%%distribute -n 3 --on ssh:h1,h2\npass");
    all_up(&w, 2);
    ok(logged(
           &w,
           "-n 3: there are 2 GPUs (h1: 1 free of 2; held: GPU 0 by pid 7, h2: 1) for 3 ranks; --no-gpu runs without GPUs, --share"),
       "too few GPUs: the error counts them by machine and names options that help");
    ok(!w.nb->cells && !times(&w, "START") && !times(&w, "engine stop"),
       "after that error no rank has started, and the engine goes on");
    w.gpus[2] = "{\"gpus\":[" GPU "],\"quota\":{\"may\":0,\"text\":\"gpu_quota is 1 (x:1): a.ipynb "
                "holds 1\"}}";
    next(&w, "%%distribute -n 2\npass");
    ok(logged(&w, "-n 2: there is 1 GPU (h1: 1 free of 2; held: GPU 0 by pid 7, h2: 0 for this "
                  "notebook, of 1; gpu_quota is 1 (x:1): a.ipynb holds 1) for 2 ranks"),
       "a quota that is used up: the error says who has set it, and who uses it");
    w.gpus[2] = "{\"gpus\":[" GPU "],\"quota\":{\"may\":1,\"text\":\"gpu_quota\"}}";
    next(&w, "%%distribute -n gpu\npass");
    ok(logged(&w, "send START 2\n") && logged(&w, "send START 3\n"),
       "-n gpu starts one rank for each free GPU of all machines");
    provide(&w);
    all_ready(&w, 2, 3);
    ok(sent(&w, "CELLSPAN_GPUS"), "these ranks have CELLSPAN_GPUS in their environment");
    all_done(&w, 2, 3);
    next(&w, "%%distribute\npass");
    ok(!times(&w, "send GPUS"), "if no rank must be started, machines are not asked for GPUs");
    provide(&w);
    all_done(&w, 2, 3);
    next(&w, "%%distribute -n 4 --no-gpu\npass");
    ok(is_over(
           &w,
           "--no-gpu: ranks 0-1 were started with GPUs (--fresh ends them and starts new ones)"),
       "--no-gpu is refused while ranks with GPUs live");
    next(&w, "%%distribute --gpus 2\npass");
    ok(is_over(&w, "--gpus 2: ranks 0-1 were started with 1 GPU each"),
       "another number of GPUs for each rank is refused while ranks live");
    next(&w, "%%distribute -n 3 --fresh\npass");
    captured(&w, "{\"names\": []}");
    ok(is_over(&w, "-n 3: there are 2 GPUs") && !times(&w, "KILL"),
       "--fresh with too many ranks for the GPUs is refused before the old ranks end");
    next(&w, "%%distribute -n gpu --fresh --on local\npass");
    captured(&w, "{\"names\": []}");
    ok(is_over(&w, "-n gpu: there is no GPU on here") && !times(&w, "KILL"),
       "and so is a move to this machine, if it has no GPU");
    next(&w, "%%distribute -n 4 --no-gpu --fresh\npass");
    captured(&w, "{\"names\": []}");
    all_exited(&w, 2, 3);
    ok(!times(&w, "send GPUS") && times(&w, "send START") == 2,
       "--no-gpu --fresh starts ranks without asking for GPUs");
    world_close(&w);
}

static void gpus_that_are_not_known(void)
{
    static const char unknown[] = "{\"gpus\":null,\"why\":\"the GPU driver does not answer\"}";
    struct clock clock;
    struct world w;

    home_open(&w, &clock);
    w.gpus[0] = unknown;
    run(&w, "%%distribute -n 2\npass");
    ok(logged(
           &w,
           "the GPUs of here could not be listed (the GPU driver does not answer): ranks start there without GPUs") &&
           times(&w, "send START") == 1,
       "if GPUs can't be listed, ranks start without them, and a line says so");
    world_close(&w);
    home_open(&w, &clock);
    w.gpus[0] = unknown;
    run(&w, "%%distribute -n 2 --no-gpu\npass");
    ok(times(&w, "send START") == 1 && !times(&w, "GPU driver"),
       "with --no-gpu, GPUs that can't be listed are not mentioned");
    world_close(&w);
}

static void gpus_of_one_machine(void)
{
    struct clock clock;
    struct world w;

    world_open(&w, &clock);
    run(&w, "%%distribute --gpus 2 -n 1\npass");
    ok(is_over(&w, "--gpus 2: there is no GPU on here"),
       "--gpus 2 is refused on a machine without GPUs");
    w.gpus[0] = "{\"gpus\":[" GPU "," LEASED "]}";
    next(&w, "%%distribute -n gpu\npass");
    ok(is_over(&w, "there is no GPU on here"),
       "a machine that has told that it has no GPUs is not asked again");
    world_close(&w);
    world_open(&w, &clock);
    w.gpus[0] = "{\"gpus\":null,\"why\":\"the GPU driver does not answer\"}";
    run(&w, "%%distribute --gpus 1 -n 1\npass");
    ok(is_over(
           &w,
           "no GPU on here (leave --gpus out to run without); here: the GPU driver does not answer"),
       "the error says why GPUs could not be listed");
    w.gpus[0] = "{\"gpus\":[" GPU "]}";
    next(&w, "%%distribute -n gpu\npass");
    ok(times(&w, "send GPUS") == 1 && times(&w, "send START") == 1,
       "a machine that could not list its GPUs is asked again by the next cell");
    world_close(&w);
    world_open(&w, &clock);
    w.gpus[0] = "{\"gpus\":[],\"why\":\"no driver: reboot\"}";
    run(&w, "%%distribute -n gpu\npass");
    ok(is_over(&w, "no GPU on here (give a number, as in -n 4); here: no driver: reboot"),
       "-n gpu also says why there are no GPUs");
    world_close(&w);
    world_open(&w, &clock);
    w.silent = true;
    run(&w, "%%distribute\npass");
    ok(logged(&w, "send GPUS node 0") && !times(&w, "START") && logged(&w, "send CAPTURE"),
       "home looks for variables while a machine lists its GPUs");
    pass(&w, START_LIMIT_NS + NS_PER_S);
    ok(is_over(&w, "here did not say in 120 s which GPUs it has"),
       "if a machine does not list its GPUs in time, the cell fails");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    gpus();
    gpus_that_are_not_known();
    gpus_of_one_machine();
    return plan_done();
}
