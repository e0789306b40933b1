/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent and its GPUs: a real agent, the real process cellspan-gpus, a double of the driver. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/span_fields.h"
#include "tests/unit/agent/double.h"
#include "tests/unit/agent/fake.h"
#include "tests/unit/gpu/stage.h"

#define WINDOW (1u << 20)

static void start_ranks(struct kernel *k, const char *self, uint32_t first, unsigned n,
                        unsigned gpus, bool share)
{
    struct span m = { .kind = SPAN_START };
    uint32_t workers[64], ranks[64];

    for (unsigned i = 0; i < n; i++) {
        workers[i] = first + i;
        ranks[i] = first + i - 2;
    }
    m.v[F_START_ROLE].u64 = START_RANK;
    m.v[F_START_RANKS].s = slice_of(ranks, 4 * n);
    m.v[F_START_PYTHON].s = slice_text(self);
    m.v[F_START_ENV].s = slice_text("{\"A\": \"1\"}");
    m.v[F_START_GPUS].u64 = gpus;
    m.v[F_START_SHARE].u64 = share;
    kernel_send(k, workers, n, &m);
}

static void all_ready(struct kernel *k, unsigned n)
{
    bool ready = true;

    for (unsigned i = 0; i < n; i++)
        ready = ready && kernel_until(k, SPAN_READY, 0);
    ok(ready, "%u ranks come up", n);
}

static void sees(struct kernel *k, uint32_t worker, const char *want, const char *name)
{
    kernel_forget(k);
    kernel_run(k, worker, 3, "env CUDA_VISIBLE_DEVICES");
    (void)kernel_until(k, SPAN_DONE, worker);
    if (!ok(kernel_told(k, want), "%s", name))
        diag("  %s", k->story.p);
}

static void owns(struct kernel *k, uint32_t worker, const char *want, const char *name)
{
    kernel_forget(k);
    kernel_run(k, worker, 3, "env CELLSPAN_LOCAL_GPUS");
    (void)kernel_until(k, SPAN_DONE, worker);
    if (!ok(kernel_told(k, want), "%s", name))
        diag("  %s", k->story.p);
}

static bool says(struct slice s, const char *text)
{
    return memmem(s.p, s.n, text, strlen(text)) != NULL;
}

/* The driver has 0.7 s to say what happened, which its double may miss on a busy machine. */
static bool was_late(struct slice s)
{
    return says(s, "does not answer");
}

static void gone(struct kernel *k, uint32_t worker, const char *script, const char *gpu,
                 const char *name)
{
    kernel_run(k, worker, 4, script);
    ok(kernel_until(k, SPAN_EXITED, worker), "it ends");
    if (!ok(gpu[0] ? says(k->last.v[F_EXITED_GPU].s, gpu) : k->last.v[F_EXITED_GPU].s.n == 0, "%s",
            name))
        diag("  %.*s", SLICE_ARG(k->last.v[F_EXITED_GPU].s));
}

static void refused(struct kernel *k, uint32_t worker, const char *why, const char *name)
{
    ok(kernel_until(k, SPAN_EXITED, worker) && k->last.v[F_EXITED_CODE].u64 == EXITED_UNKNOWN,
       "worker %u is refused", worker);
    if (!ok(says(k->last.v[F_EXITED_CAUSE].s, why), "%s", name))
        diag("  %.*s", SLICE_ARG(k->last.v[F_EXITED_CAUSE].s));
}

static void ranks_get_gpus(struct kernel *k, const char *self)
{
    kernel_say(k, 0, SPAN_GPUS);
    ok(kernel_until(k, SPAN_GPUS, 0) && says(k->last.v[F_GPUS_GPUS].s, "\"uuid\":\"GPU-a007"),
       "the kernel is told of eight GPUs");
    start_ranks(k, self, 2, 4, 1, false);
    all_ready(k, 4);
    sees(k, 2, "1<0,1,2,3\n>", "rank 0 sees those of all ranks");
    kernel_forget(k);
    kernel_run(k, 2, 3, "env CUDA_DEVICE_ORDER");
    ok(kernel_until(k, SPAN_DONE, 2) && kernel_told(k, "1<PCI_BUS_ID\n>"),
       "by the numbers that they have on the bus");
    owns(k, 2, "1<0\n>", "and has the first");
    sees(k, 5, "1<0,1,2,3\n>", "so does rank 3");
    owns(k, 5, "1<3\n>", "which has the fourth");
    start_ranks(k, self, 6, 2, 2, false);
    all_ready(k, 2);
    sees(k, 7, ",6,7\n>", "two GPUs for each");
    owns(k, 7, "1<6,7\n>", "in the order of ranks");
    start_ranks(k, self, 8, 2, 1, false);
    refused(k, 8, "this node has 8, of which 0 are free", "there is none left");
    refused(k, 9, "--no-gpu", "and it says what can be done");
    start_ranks(k, self, 10, 1, 0, false);
    all_ready(k, 1);
    sees(k, 10, "1<\n>", "a rank that is to have none sees none");
    kernel_run(k, 10, 3, "env A");
    ok(kernel_until(k, SPAN_DONE, 10) && kernel_told(k, "1<1\n>"),
       "and the rest of its environment");
    start_ranks(k, self, 11, 2, 1, true);
    all_ready(k, 2);
    sees(k, 11, "1<0\n>", "shared GPUs are given all the same");
}

static void gauges_are_answered(struct kernel *k)
{
    kernel_say(k, 0, SPAN_GAUGES);
    ok(kernel_until(k, SPAN_GAUGES, 0), "gauges are told");
    ok(says(k->last.v[F_GAUGES_GAUGES].s, "\"total\":85899345920") &&
           says(k->last.v[F_GAUGES_GAUGES].s,
                "\"gpus\":[\"GPU-a0031234-0000-4000-8000-0123456789ab\"]"),
       "with every worker's GPUs: %.*s", SLICE_ARG(k->last.v[F_GAUGES_GAUGES].s));
}

/* On GPU 1, which is free. The driver's news may come after the rank's end where the machine is
 * busy: then once more. */
static void an_xid_is_told(struct kernel *k, const char *self, const struct stage *s)
{
    char facts[1024] = "";
    size_t n = 0;

    do {
        stage_set(s, "");
        start_ranks(k, self, 14, 1, 1, false);
        all_ready(k, 1);
        sees(k, 14, "1", "the dead rank's GPU is given to the next");
        /* one more than there were */
        n += (size_t)snprintf(facts + n, sizeof facts - n, "xid 1 79\n");
        snprintf(facts + n, sizeof facts - n, "memory 1 80000\nprocess 1 999999 70000\n");
        stage_set(s, facts);
        kernel_run(k, 14, 4, "err RuntimeError: CUDA error: out of memory\\n\nkill 6");
        if (!ok(kernel_until(k, SPAN_EXITED, 14), "it ends"))
            return;
    } while ((was_late(k->last.v[F_EXITED_GPU].s) || !says(k->last.v[F_EXITED_GPU].s, "Xid 79")) &&
             n < 100);
    ok(says(k->last.v[F_EXITED_GPU].s, "Xid 79: GPU has fallen off the bus"),
       "an Xid is told: %.*s", SLICE_ARG(k->last.v[F_EXITED_GPU].s));
}

static void deaths_name_gpus(struct kernel *k, const char *self, const struct stage *s)
{
    gone(k, 3, "exit 3", "GPU 1 (GPU-a001…, NVIDIA A100-SXM4-80GB)", "a dead rank's GPU is named");
    ok(k->last.v[F_EXITED_CODE].u64 == EXITED_STATUS && k->last.v[F_EXITED_STATUS].u64 == 3 &&
           k->last.v[F_EXITED_CAUSE].s.n == 0,
       "with its exit status");
    gone(k, 10, "exit 0", "", "one that had none says nothing");
    start_ranks(k, self, 13, 1, 1, false);
    refused(k, 13, "8, of which 0 are free", "what others share is not free");
    gone(k, 11, "exit 0", "GPU", "sharers end");
    gone(k, 12, "exit 0", "GPU", "both");
    an_xid_is_told(k, self, s);
    ok(k->last.v[F_EXITED_STATUS].u64 == 6 &&
           says(k->last.v[F_EXITED_GPU].s, "its memory ran out; now in use: 78.1 GiB of 80.0 GiB, "
                                           "68.4 GiB by pid 999999"),
       "and who holds the memory: %.*s", SLICE_ARG(k->last.v[F_EXITED_GPU].s));
    stage_set(s, "");
}

static void full_gpus_are_explained(struct kernel *k, const struct stage *s)
{
    stage_set(s, "memory 2 80000\nprocess 2 999999 70000\n");
    for (int tries = 0; tries == 0 || (tries < 20 && was_late(k->last.v[F_DONE_CONTENT].s));
         tries++) {
        kernel_run(k, 4, 5, "oom");
        ok(kernel_until(k, SPAN_DONE, 4) && k->last.cell == 5, "a cell whose GPU was full is over");
    }
    ok(says(k->last.v[F_DONE_CONTENT].s, "\"evalue\":\"CUDA out of memory.\"") &&
           says(
               k->last.v[F_DONE_CONTENT].s,
               "GPU 2 (GPU-a002…, NVIDIA A100-SXM4-80GB): its memory ran out; now in use: 78.1 GiB of 80.0 GiB, "
               "68.4 GiB by pid 999999"),
       "and says who fills it");
    stage_set(s, "");
}

/* Another notebook on this machine. */
static void notebooks_do_not_share(struct kernel *one, const char *self)
{
    struct kernel two;

    kernel_start(&two, self, false, WINDOW);
    start_ranks(&two, self, 2, 2, 1, false);
    refused(&two, 2, "(pid ", "who holds them is named");
    start_ranks(&two, self, 4, 1, 1, false);
    all_ready(&two, 1);
    sees(&two, 4, "1<1\n>", "the one that is free is given");
    kill(one->agent, SIGKILL);
    (void)kernel_wait(one);
    start_ranks(&two, self, 5, 7, 1, false);
    all_ready(&two, 7);
    sees(&two, 5, "1<1,0,2,3", "and all others when their owner was killed");
    is_int(kernel_end(&two), 0, "the agent ends");
}

/* The driver takes its time: home and the kernel's wishes don't wait for it. */
static void slow_drivers_hold_up_nobody(const char *self, const struct stage *s)
{
    const uint32_t third = 3;
    struct span m = { .kind = SPAN_KILL };
    struct kernel k;

    stage_set(s, "hang nvmlInit_v2 8000\n");
    kernel_start(&k, self, true, WINDOW);
    start_ranks(&k, self, 2, 2, 1, false);
    m.v[F_KILL_SIGNAL].u64 = 9;
    kernel_send(&k, &third, 1, &m);
    kernel_run(&k, 2, 3, "env CUDA_VISIBLE_DEVICES");
    kernel_run(&k, 1, 3, "out hello\\n");
    kernel_forget(&k);
    ok(kernel_until(&k, SPAN_REPLY, 1) && !kernel_told(&k, "[READY]"), "home answers meanwhile");
    ok(kernel_until(&k, SPAN_EXITED, 3), "a rank that waits for its GPU can be killed");
    ok(kernel_until(&k, SPAN_DONE, 2) && kernel_told(&k, "1<0"),
       "the other one gets one, and what it was sent meanwhile");
    start_ranks(&k, self, 4, 8, 1, false);
    refused(&k, 4, "8, of which 7 are free", "too many");
    is_int(kernel_end(&k), 0, "the agent ends");
    kernel_start(&k, self, false, WINDOW);
    start_ranks(&k, self, 2, 2, 1, false);
    is_int(kernel_end(&k), 0, "also while the driver is asked");
    stage_set(s, "");
}

static void ask_to_park(struct kernel *k, uint64_t how)
{
    static const uint32_t both[] = { 2, 3 };
    struct span m = { .kind = SPAN_PARK, .cell = 7, .v[F_PARK_HOW].u64 = how };

    kernel_send(k, both, 2, &m);
    ok(kernel_until(k, SPAN_PARK, 0) && k->last.cell == 7, "PARK is answered");
    diag("%.*s", SLICE_ARG(k->last.v[F_PARK_SAID].s));
}

static void idle_ranks_are_parked(const char *self, const struct stage *s)
{
    struct kernel one, two;

    stage_set(s, "count 2\nmemory 0 0\nmemory 1 0\n");
    kernel_start(&one, self, false, WINDOW);
    start_ranks(&one, self, 2, 2, 1, false);
    all_ready(&one, 2);
    ask_to_park(&one, 0);
    ok(says(one.last.v[F_PARK_SAID].s, "\"workers\":[[2,\"parked\"],[3,\"parked\"]]"),
       "ranks that have nothing on their GPUs only give up their leases");
    kernel_start(&two, self, false, WINDOW);
    start_ranks(&two, self, 2, 1, 1, false);
    all_ready(&two, 1);
    ask_to_park(&one, PARK_BACK);
    ok(says(one.last.v[F_PARK_SAID].s, "\"held\":true") &&
           says(one.last.v[F_PARK_SAID].s, "is held by"),
       "which another notebook takes");
    is_int(kernel_end(&two), 0, "that one ends");
    ask_to_park(&one, PARK_BACK | PARK_NCCL);
    ok(says(one.last.v[F_PARK_SAID].s, "\"workers\":[[2,\"running\"],[3,\"running\"]]"),
       "then they have them again");
    ask_to_park(&one, 0);
    is_int(kernel_end(&one), 0, "the agent ends with parked ranks");
    stage_set(s, "");
}

static void nodes_without_gpus_say_so(const char *self)
{
    struct kernel k;

    setenv("CELLSPAN_NVML_LIBRARY", "/nowhere/libnvidia-ml.so", 1);
    setenv("CELLSPAN_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
    kernel_start(&k, self, false, WINDOW);
    kernel_say(&k, 0, SPAN_GPUS);
    ok(kernel_until(&k, SPAN_GPUS, 0) && says(k.last.v[F_GPUS_GPUS].s, "\"gpus\":[]") &&
           says(k.last.v[F_GPUS_GPUS].s, "no driver"),
       "there is no driver");
    start_ranks(&k, self, 2, 1, 1, false);
    refused(&k, 2, "this node has none: no driver", "a GPU that was asked for isn't there");
    start_ranks(&k, self, 3, 1, 0, false);
    all_ready(&k, 1);
    sees(&k, 3, "1<(none)\n>", "a rank without one is as ever");
    kernel_say(&k, 0, SPAN_GAUGES);
    ok(kernel_until(&k, SPAN_GAUGES, 0) &&
           says(k.last.v[F_GAUGES_GAUGES].s, "{\"worker\":3,\"memory\":") &&
           says(k.last.v[F_GAUGES_GAUGES].s, ",\"cpu\":") &&
           says(k.last.v[F_GAUGES_GAUGES].s, ",\"suspended\":false,"),
       "its memory is told, and its use of processors, which is null while it is young");
    is_int(kernel_end(&k), 0, "the agent ends");
}

int main(int argc, char **argv)
{
    struct stage s;
    struct kernel k;

    if (fake_is_wanted(argc, argv))
        return fake_main(argc, argv);
    stage_open(&s);
    kernel_start(&k, argv[0], false, WINDOW);
    ranks_get_gpus(&k, argv[0]);
    gauges_are_answered(&k);
    deaths_name_gpus(&k, argv[0], &s);
    full_gpus_are_explained(&k, &s);
    notebooks_do_not_share(&k, argv[0]);
    slow_drivers_hold_up_nobody(argv[0], &s);
    idle_ranks_are_parked(argv[0], &s);
    nodes_without_gpus_say_so(argv[0]);
    stage_close(&s);
    return plan_done();
}
