/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of worker/agent/gpu/checkpoint.h through cellspan-gpus' questions, with doubles of the
 * driver's libraries. Two processes that sleep stand for ranks 0 and 1, workers 2 and 3. */
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/unit/chaos.h"
#include "tests/unit/gpu/stage.h"
#include "worker/agent/gpu/driver.h"
#include "worker/agent/gpu/probe.h"

static struct gpu_driver d; /* large */
static pid_t rank[2];
static struct buf said = BUF_INIT;

static pid_t sleeper(void)
{
    const pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    return pid;
}

/* The ranks have 1 and 2 GiB on their GPUs, 0 and 1, and the driver does what `facts` say. */
static void present(const struct stage *s, const char *facts)
{
    char text[1024];

    snprintf(text, sizeof text, "count 4\nprocess 0 %d 1024\nprocess 1 %d 2048\n%s", (int)rank[0],
             (int)rank[1], facts);
    stage_set(s, text);
}

static void begin(const struct stage *s, const char *facts)
{
    for (int k = 0; k < 2; k++)
        rank[k] = sleeper();
    checkpoint_close(&d.checkpoint);
    driver_release(&d);
    driver_init(&d);
    stage_library("CELLSPAN_CUDA_LIBRARY", "libcuda.so");
    present(s, facts);
}

static void end(void)
{
    for (int k = 0; k < 2; k++) {
        (void)kill(rank[k], SIGKILL);
        (void)waitpid(rank[k], NULL, 0);
    }
}

/* more: what the question has besides, as ",\"nccl\":true". */
static void ask(const char *what, const char *more)
{
    char line[1024];

    snprintf(line, sizeof line,
             "{\"ask\":\"%s\",\"workers\":["
             "{\"worker\":2,\"pid\":%d,\"who\":\"rank 0\",\"gpus\":[\"%s\"]},"
             "{\"worker\":3,\"pid\":%d,\"who\":\"rank 1\",\"gpus\":[\"%s\"]}]%s}",
             what, (int)rank[0], d.gpus.n ? d.gpus.v[0].uuid : "", (int)rank[1],
             d.gpus.n ? d.gpus.v[1].uuid : "", more);
    buf_clear(&said);
    if (probe_answer(&d, NULL, slice_text(line), &said) < 0)
        buf_clear(&said);
}

static void list(void)
{
    buf_clear(&said);
    ok(probe_answer(&d, NULL, slice_text("{\"ask\":\"list\"}"), &said) == 0 && d.gpus.n >= 2,
       "there are GPUs");
}

static bool says(const char *text)
{
    return said.n && strstr(said.p, text);
}

#define BOTH(state) "\"states\":[[2,\"" state "\"],[3,\"" state "\"]]"

static int state_of(pid_t pid)
{
    int state = -1;

    return d.checkpoint.state((int)pid, &state) == 0 ? state : -1;
}

static bool are(int zero, int one)
{
    return state_of(rank[0]) == zero && state_of(rank[1]) == one;
}

static void away_and_back(const struct stage *s)
{
    begin(s, "");
    list();
    ask("park", "");
    ok(says(BOTH("parked")) && says("\"why\":null") && are(CHECKPOINT_AWAY, CHECKPOINT_AWAY),
       "both are parked: %s", said.p);
    ok(says("\"bytes\":3355443200"), "with what they have on their GPUs, and a little more");
    ask("park", "");
    ok(says("another program has locked it") && are(CHECKPOINT_AWAY, CHECKPOINT_AWAY),
       "what is away already is not touched: %s", said.p);
    ask("return", "");
    ok(says(BOTH("running")) && says("\"why\":null") && are(CHECKPOINT_RUNNING, CHECKPOINT_RUNNING),
       "both are back: %s", said.p);
    ask("return", "");
    ok(says(BOTH("running")), "twice is as once");
    end();
}

static void one_without_cuda(const struct stage *s)
{
    char facts[64], back[128];

    begin(s, "");
    list();
    snprintf(facts, sizeof facts, "count 4\nmemory 1 0\nprocess 0 %d 1024\n", (int)rank[0]);
    stage_set(s, facts);
    ask("park", "");
    ok(says(BOTH("parked")) && state_of(rank[0]) == CHECKPOINT_AWAY, "it has nothing to move");
    snprintf(back, sizeof back, "%scuCheckpointProcessRestore %d 2\n", facts, (int)rank[0]);
    stage_set(s, back);
    ask("return", ",\"parked\":true");
    ok(says(BOTH("parked")), "and stays away with the others");
    ask("return", "");
    ok(says("[[2,\"parked\"],[3,\"running\"]]"), "unless it may have been there");
    stage_set(s, facts);
    ask("return", ",\"parked\":true");
    ok(says(BOTH("running")), "and is back with them");
    end();
}

static void drivers_that_can_not(const struct stage *s)
{
    begin(s, "");
    list();
    checkpoint_close(&d.checkpoint);
    stage_library("CELLSPAN_CUDA_LIBRARY", "libcuda-old.so");
    ask("park", "");
    ok(says(BOTH("running")) && says("the driver can't do it (570 or newer can)"), "an old one");
    ask("return", ",\"parked\":true");
    ok(says(BOTH("parked")), "those that were away are away still");
    ask("return", "");
    ok(says(BOTH("lost")), "where others are, nobody knows");
    setenv("CELLSPAN_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
    ask("park", "");
    ok(says(BOTH("running")) && says("there is no CUDA driver"), "none: %s", said.p);
    stage_library("CELLSPAN_CUDA_LIBRARY", "libcuda.so");
    present(s, "fail cuInit 100\n");
    ask("park", "");
    ok(says(BOTH("running")) && says("no CUDA-capable device is detected (CUDA error 100)"),
       "one that does not start");
    present(s, "driver 570\n");
    list();
    ask("park", ",\"nccl\":true");
    ok(says(BOTH("running")) && says("driver 610 or newer can move; this is 570.12.34") &&
           are(CHECKPOINT_RUNNING, CHECKPOINT_RUNNING),
       "one that can't move communicators: %s", said.p);
    present(s, "driver 610\n");
    list();
    ask("park", ",\"nccl\":true");
    ok(says(BOTH("parked")), "one that can");
    end();
}

static void memory_of_the_host(const struct stage *s)
{
    begin(s, "");
    list();
    ask("park", ",\"room\":3355443199,\"of\":\"the memory limit of its control group\"");
    ok(says(BOTH("running")) && says("they need 3.1 GiB of memory, and the memory limit of its "
                                     "control group has 3.1 GiB left"),
       "what does not fit stays: %s", said.p);
    ask("park", ",\"room\":3355443200");
    ok(says(BOTH("parked")), "what fits goes");
    ask("return", "");
    stage_set(s, "count 4\nmemory 0 5000\n");
    ask("park", "");
    ok(says(BOTH("running")) && says("the driver does not list who uses GPU 0"),
       "nothing is moved that can't be measured: %s", said.p);
    end();
}

static void failed_steps(const struct stage *s)
{
    char facts[128];

    begin(s, "");
    list();
    snprintf(facts, sizeof facts, "cuCheckpointProcessLock %d 600\n", (int)rank[1]);
    present(s, facts);
    ask("park", "");
    ok(says(BOTH("running")) && says("rank 1: it could not be locked: CUDA error 600") &&
           are(CHECKPOINT_RUNNING, CHECKPOINT_RUNNING),
       "a lock that takes too long: the other is unlocked: %s", said.p);
    snprintf(facts, sizeof facts, "cuCheckpointProcessCheckpoint %d 2\n", (int)rank[1]);
    present(s, facts);
    ask("park", "");
    ok(says(BOTH("running")) && says("rank 1: its GPU memory could not be moved") &&
           are(CHECKPOINT_RUNNING, CHECKPOINT_RUNNING),
       "one that can't be moved: the other is back: %s", said.p);
    snprintf(facts, sizeof facts, "cuCheckpointProcessCheckpoint %d -1\n", (int)rank[1]);
    present(s, facts);
    ask("park", "");
    ok(says("[[2,\"running\"],[3,\"lost\"]]") && are(CHECKPOINT_RUNNING, CHECKPOINT_FAILED),
       "one that is lost by it: %s", said.p);
    end();

    begin(s, "");
    list();
    ask("park", "");
    snprintf(facts, sizeof facts, "cuCheckpointProcessRestore %d 2\n", (int)rank[1]);
    present(s, facts);
    ask("return", "");
    ok(says(BOTH("parked")) && says("rank 1: its GPU memory could not be restored: CUDA error 2") &&
           are(CHECKPOINT_AWAY, CHECKPOINT_AWAY),
       "a GPU without room: all stay away: %s", said.p);
    snprintf(facts, sizeof facts, "cuCheckpointProcessRestore %d -1\n", (int)rank[1]);
    present(s, facts);
    ask("return", "");
    ok(says("[[2,\"running\"],[3,\"lost\"]]") && are(CHECKPOINT_RUNNING, CHECKPOINT_FAILED),
       "a restore by which one is lost: the other goes on: %s", said.p);
    end();
}

/* What another process of this program has left in the midst. */
static void half_done(const struct stage *s)
{
    struct checkpoint_args args = { 0 };

    begin(s, "");
    list();
    ask("return", ""); /* opens the library */
    ok(d.checkpoint.lock((int)rank[0], &args) == 0 && d.checkpoint.lock((int)rank[1], &args) == 0 &&
           d.checkpoint.away((int)rank[1], &args) == 0,
       "one is locked, and one away");
    ask("return", "");
    ok(says(BOTH("running")) && are(CHECKPOINT_RUNNING, CHECKPOINT_RUNNING), "both go on");
    end();
}

static void one_that_dies(const struct stage *s)
{
    begin(s, "");
    list();
    ask("park", "");
    (void)kill(rank[1], SIGKILL);
    ok(waitpid(rank[1], NULL, 0) == rank[1], "one that is away can be killed");
    ask("return", "");
    ok(says("[2,\"running\"]") && says("\"why\":null") && state_of(rank[0]) == CHECKPOINT_RUNNING,
       "the other comes back: %s", said.p);
    end();
}

static void memory_is_out(const struct stage *s)
{
    bool good = true, struck = true;
    long n = 0;

    begin(s, "");
    list();
    for (; good && struck && n < 1000; n++) {
        alloc_fail_at(n);
        ask("park", "");
        struck = alloc_failed();
        chaos_left = -1;
        good = are(CHECKPOINT_AWAY, CHECKPOINT_AWAY) || are(CHECKPOINT_RUNNING, CHECKPOINT_RUNNING);
        if (struck)
            ask("return", "");
    }
    ok(good && !struck && says(BOTH("parked")),
       "wherever memory is out, none is left in the midst: %ld places", n);
    end();
}

int main(void)
{
    struct stage s;

    stage_open(&s);
    driver_init(&d);
    away_and_back(&s);
    one_without_cuda(&s);
    drivers_that_can_not(&s);
    memory_of_the_host(&s);
    failed_steps(&s);
    half_done(&s);
    one_that_dies(&s);
    memory_is_out(&s);
    checkpoint_close(&d.checkpoint);
    driver_release(&d);
    buf_release(&said);
    stage_close(&s);
    return plan_done();
}
