/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks with GPUs end when no cell has run for the time of CELLSPAN_GPU_IDLE_RELEASE. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define GPUS2  "{\"gpus\":[{\"uuid\":\"GPU-1\"},{\"uuid\":\"GPU-2\"}]}"
#define IDLE_S UINT64_C(900)
#define LINE                                                                                       \
    "cellspan: no cell has run for 15 min, so ranks 0-1 have ended, and 2 GPUs are free for "      \
    "others (CELLSPAN_GPU_IDLE_RELEASE). The next cell on ranks starts new ones, without these "   \
    "ranks' variables"

/* Two idle ranks with a GPU each, workers 2 and 3; the log is empty. */
static void open_gpus(struct world *w, struct clock *clock)
{
    world_config.gpu_idle_ns = IDLE_S * NS_PER_S;
    home_open(w, clock);
    world_config.gpu_idle_ns = 0;
    w->gpus[0] = GPUS2;
    begin_two(w);
    all_done(w, 2, 3);
    buf_clear(&w->log);
}

static void they_end(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock);
    pass(&w, (IDLE_S - 1) * NS_PER_S);
    ok(!times(&w, "send KILL"), "before that time they stay");
    pass(&w, 2 * NS_PER_S);
    ok(logged(&w, LINE) && times(&w, "send KILL") == 1, "then they end, and a line says so");
    all_exited(&w, 2, 3);
    ok(!times(&w, "no cell was running"), "nothing calls that a death");
    buf_clear(&w.log);
    pass(&w, 3 * IDLE_S * NS_PER_S);
    ok(!times(&w, "cellspan: "), "it is said once");
    run(&w, "%%distribute\npass");
    provide(&w);
    all_ready(&w, 4, 5);
    ok(logged(&w, "ranks 0-1 are new: their variables are gone") && times(&w, "send RUN"),
       "the next cell has as many ranks, and says what is gone");
    all_done(&w, 4, 5);
    buf_clear(&w.log);
    pass(&w, (IDLE_S + 1) * NS_PER_S);
    ok(logged(&w, LINE), "these end as well");
    world_close(&w);
}

static void what_is_work(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock);
    run(&w, "%%distribute\npass");
    provide(&w);
    pass(&w, 5 * IDLE_S * NS_PER_S);
    ok(!times(&w, "send KILL"), "a cell on ranks is work, however long it runs");
    all_done(&w, 2, 3);
    pass(&w, (IDLE_S - 1) * NS_PER_S);
    run(&w, "x = 1");
    pass(&w, 2 * IDLE_S * NS_PER_S);
    ok(!times(&w, "send KILL"), "so is a cell at home");
    world_close(&w);

    open_gpus(&w, &clock);
    pass(&w, (IDLE_S - 1) * NS_PER_S);
    publishes(&w, 2, "stream", "{\"name\":\"stdout\",\"text\":\"a thread\\n\"}");
    pass(&w, (IDLE_S - 1) * NS_PER_S);
    ok(!times(&w, "send KILL"), "and what a rank prints after its cell");
    pass(&w, 2 * NS_PER_S);
    ok(times(&w, "send KILL") == 1, "the time begins anew after it");
    world_close(&w);
}

static void a_cell_while_they_end(void)
{
    struct clock clock;
    struct world w;

    open_gpus(&w, &clock);
    pass(&w, (IDLE_S + 1) * NS_PER_S);
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    provide(&w);
    ok(!times(&w, "send START"), "a cell waits for the ends of ranks, which have their GPUs still");
    exited(&w, 2, EXITED_SIGNAL, SIGTERM);
    ok(!times(&w, "send START"), "of all of them");
    exited(&w, 3, EXITED_SIGNAL, SIGTERM);
    settle(&w);
    ok(times(&w, "send START") == 1, "then its ranks start");
    world_close(&w);

    open_gpus(&w, &clock);
    pass(&w, (IDLE_S + 1) * NS_PER_S);
    exited(&w, 2, EXITED_SIGNAL, SIGTERM);
    buf_clear(&w.log);
    run(&w, "%%distribute\npass");
    provide(&w);
    pass(&w, STOP_GRACE_MS * NS_PER_MS + LEFT_BEHIND_NS + NS_PER_S);
    settle(&w);
    ok(logged(&w, "did not end 10 s after it was killed, and is left behind") &&
           times(&w, "send START") == 1,
       "one that does not end is left behind");
    world_close(&w);
}

static void whose_gpus_others_can_use(void)
{
    struct clock clock;
    struct world w;

    world_config.gpu_idle_ns = IDLE_S * NS_PER_S;
    world_open_idle(&w, &clock);
    pass(&w, 2 * IDLE_S * NS_PER_S);
    ok(!times(&w, "send KILL"), "ranks without GPUs stay");
    world_close(&w);

    open_two(&w, &clock);
    w.nb->group->gpus = 1;
    pass(&w, 2 * IDLE_S * NS_PER_S);
    ok(times(&w, "send KILL"), "GPUs of ssh's hosts are shared");
    ok(w.nb->group->engine && !times(&w, "engine_stop"), "the agents there stay");
    world_close(&w);

    open_two(&w, &clock);
    w.nb->group->gpus = 1;
    free(w.nb->group->on);
    w.nb->group->on = strdup("slurm:-N2");
    pass(&w, 2 * IDLE_S * NS_PER_S);
    ok(!times(&w, "send KILL"), "those of a job are not");
    world_close(&w);

    world_config.gpu_idle_ns = 0;
    home_open(&w, &clock);
    w.gpus[0] = GPUS2;
    begin_two(&w);
    all_done(&w, 2, 3);
    pass(&w, 100 * IDLE_S * NS_PER_S);
    ok(!times(&w, "send KILL"), "off: they stay");
    world_close(&w);
}

int main(void)
{
    they_end();
    what_is_work();
    a_cell_while_they_end();
    whose_gpus_others_can_use();
    return plan_done();
}
