/* SPDX-License-Identifier: BSD-3-Clause */
/* Large variables from GPU to GPU: who is asked for the id, who is sent the blob, and that the blob
 * is sent as usual when broadcasting fails. */
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "tests/unit/kernel/double.h"
#include "tests/unit/tap.h"

#define MIB   (UINT64_C(1) << 20)
#define GPUS3 "{\"gpus\":[{\"uuid\":\"GPU-1\"},{\"uuid\":\"GPU-2\"},{\"uuid\":\"GPU-3\"}]}"
#define ID    "{\"nccl_id\":\"00ff\"}"

static void open_three(struct world *w, struct clock *clock, const char *gpus, const char *option)
{
    char code[80];

    world_open(w, clock);
    ready(w, SPAN_WORKER_HOME);
    w->gpus[0] = gpus;
    snprintf(code, sizeof code, "%%%%distribute -n 3 %s\nprint(x)", option);
    run(w, code);
    captured(w, "{\"names\": [[\"x\", 1, 8, \"\"]]}");
    port(w);
    for (uint32_t k = 2; k < 5; k++)
        ready(w, k);
}

/* Three ranks, workers 2 to 4, of which the last is on another machine. */
static void open_far(struct world *w, struct clock *clock)
{
    world_open(w, clock);
    ready(w, SPAN_WORKER_HOME);
    w->gpus[1] = "{\"gpus\":[{\"uuid\":\"GPU-1\"},{\"uuid\":\"GPU-2\"}]}";
    w->gpus[2] = "{\"gpus\":[{\"uuid\":\"GPU-3\"}]}";
    w->captures = "{\"names\": [[\"x\", 1, 8, \"\"]]}";
    run(w, "%%distribute -n 3 --on ssh:h1,h2\nprint(x)");
    all_up(w, 2);
    port(w);
    for (uint32_t k = 2; k < 5; k++)
        ready(w, k);
}

/* `gpu` bytes of it lay on a GPU. */
static void packed_as(struct world *w, uint64_t size, uint64_t gpu)
{
    struct span m = {
        .kind = SPAN_PACKED, .cell = w->nb->cells->id, .blob = w->blob, .blob_size = size
    };

    m.v[F_PACKED_GPU].u64 = gpu;
    buf_clear(&w->log);
    say(w, SPAN_WORKER_HOME, m);
}

static void probed(struct world *w, uint32_t worker, const char *status, const char *content)
{
    struct span m = { .kind = SPAN_PROBED, .cell = w->nb->cells->id };

    m.v[F_PROBED_STATUS].s = slice_text(status);
    m.v[F_PROBED_CONTENT].s = slice_text(content);
    say(w, worker, m);
}

static void big_ones_are_broadcast(void)
{
    struct clock clock;
    struct world w;

    open_far(&w, &clock);
    packed_as(&w, 8 * MIB, 0);
    ok(logged(&w, "send PROBE 2\n") && !times(&w, "BIND"),
       "for a large variable the first rank is asked for an NCCL id, and nothing is sent yet");
    probed(&w, 3, "ok", ID);
    ok(!times(&w, "BIND"), "an answer of another rank is ignored");
    probed(&w, 2, "ok", ID);
    ok(in_order(&w, "send BIND 2\n", "send BIND 3 4\n") &&
           in_order(&w, "send BIND 3 4\n", "send RUN 2"),
       "the first rank gets the blob, the others only a note to receive it, then all get RUN");
    done(&w, 2, "ok", "", "");
    done(&w, 3, "ok", "", "");
    done(&w, 4, "ok", "", "");
    ok(!w.nb->cells && !times(&w, "INTERRUPT"), "the cell ends as usual");
    world_close(&w);
}

/* All map the blob on one machine: what was not on a GPU is best left there. */
static void on_one_machine(void)
{
    struct clock clock;
    struct world w;

    open_three(&w, &clock, GPUS3, "");
    packed_as(&w, 64 * MIB, 8 * MIB - 1);
    ok(!times(&w, "PROBE") && logged(&w, "send BIND 2 3 4\n"),
       "on one machine, a variable in host memory is mapped by all ranks");
    world_close(&w);
    open_three(&w, &clock, GPUS3, "");
    packed_as(&w, 64 * MIB, 8 * MIB);
    ok(logged(&w, "send PROBE 2\n") && !times(&w, "BIND"),
       "a variable that was on a GPU is sent from GPU to GPU");
    probed(&w, 2, "ok", ID);
    ok(in_order(&w, "send BIND 2 3 4\n", "send RUN 2"),
       "on one machine all ranks get the blob, too, for what was not on a GPU");
    world_close(&w);
    open_far(&w, &clock);
    packed_as(&w, 8 * MIB - 1, 8 * MIB - 1);
    ok(!times(&w, "PROBE") && times(&w, "send BIND") == 1,
       "small variables are sent as usual, even if they were on a GPU");
    world_close(&w);
}

static void others_are_not(const char *gpus, const char *option, uint64_t size, const char *name)
{
    struct clock clock;
    struct world w;

    open_three(&w, &clock, gpus, option);
    packed_as(&w, size, size);
    ok(!times(&w, "PROBE") && logged(&w, "send BIND 2 3 4\n"), "%s", name);
    world_close(&w);
}

static void what_fails_goes_as_ever(void)
{
    struct clock clock;
    struct world w;

    open_three(&w, &clock, GPUS3, "");
    packed_as(&w, 8 * MIB, 8 * MIB);
    probed(&w, 2, "error", "{\"error\":\"there is no libnccl\"}");
    pass(&w, NS_PER_S);
    ok(logged(&w, "send BIND 2 3 4\n") &&
           logged(&w, "don't go from GPU to GPU: there is no libnccl"),
       "if the first rank has no id, all get the blob, and a line says why");
    world_close(&w);
    open_three(&w, &clock, GPUS3, "");
    packed_as(&w, 8 * MIB, 8 * MIB);
    pass(&w, 21 * NS_PER_S);
    ok(logged(&w, "send BIND 2 3 4\n"),
       "if the first rank does not answer in time, all get the blob");
    probed(&w, 2, "ok", ID);
    ok(times(&w, "send BIND") == 1, "its late answer has no effect");
    world_close(&w);
}

static void cells_may_end_meanwhile(void)
{
    struct clock clock;
    struct world w;

    open_three(&w, &clock, GPUS3, "");
    packed_as(&w, 8 * MIB, 8 * MIB);
    exited(&w, 2, 1, 9);
    ok(!w.nb->cells && times(&w, "drop ") && !times(&w, "BIND"),
       "if the asked rank dies, the cell ends, and the blob is dropped");
    ok(logged(
           &w,
           "rank 0 was killed by signal 9 (SIGKILL) (host here, pid 1002), before the cell could run") &&
           !times(&w, "no cell was running"),
       "the cell's error says how that rank died");
    world_close(&w);
}

int main(void)
{
    struct err err = { "" };

    if (random_open(&err) < 0)
        abort();
    big_ones_are_broadcast();
    on_one_machine();
    others_are_not(GPUS3, "", 8 * MIB - 1, "a small variable is sent as usual");
    others_are_not("{\"gpus\":[]}", "", 8 * MIB, "without GPUs a large variable is sent as usual");
    others_are_not(GPUS3, "--no-gpu", 8 * MIB, "with --no-gpu a large variable is sent as usual");
    others_are_not(GPUS3, "--share", 8 * MIB, "with --share a large variable is sent as usual");
    others_are_not("{\"gpus\":[{\"mig\":true},{\"mig\":true},{\"mig\":true}]}", "", 8 * MIB,
                   "with MIG instances a large variable is sent as usual");
    what_fails_goes_as_ever();
    cells_may_end_meanwhile();
    return plan_done();
}
