/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of gpu_park() and gpu_return(): the leases of parked workers, through the real process
 * cellspan-gpus with doubles of the driver. */
#include <signal.h>
#include <sys/wait.h>

#include "base/settings.h"
#include "tests/unit/gpu/stage.h"
#include "worker/agent/gpu/gpu.h"
#include "worker/agent/gpu/headroom.h"

#define LIMIT_NS (60 * NS_PER_S)
#define BOTH(s)  "\"workers\":[[2,\"" s "\"],[3,\"" s "\"]]"

static struct loop *loop;
static char said[4096];
static bool waits; /* bring_back() does */
static struct gpu_worker ranks[2] = { { 2, 0, "rank 0" }, { 3, 0, "rank 1" } };

#define ALL (UINT64_C(1) << 50)
static uint64_t all_memory(void *arg)
{
    (void)arg;
    return ALL;
}

static void too_long(void *arg)
{
    ok(false, "an answer comes in time");
    loop_stop(arg);
}

static void take_text(void *arg, struct slice text)
{
    (void)arg;
    snprintf(said, sizeof said, "%.*s", SLICE_ARG(text));
    loop_stop(loop);
}

static void known(void *arg)
{
    take_text(arg, slice_text("known"));
}

static void await(void)
{
    struct err err = { "" };
    struct watch *limit = said[0] ? NULL : loop_timer(loop, LIMIT_NS, 0, too_long, loop, &err);

    if (limit)
        ok(loop_run(loop, &err) == 0, "the loop runs");
    watch_stop(limit);
}

static void park(struct gpu_allocations *d)
{
    said[0] = '\0';
    gpu_park(d, ranks, 2, false, take_text, NULL);
    await();
}

static void bring_back(struct gpu_allocations *d)
{
    said[0] = '\0';
    gpu_return(d, ranks, 2, waits, take_text, NULL);
    await();
}

static struct gpu_allocations *notebook(void)
{
    struct err err = { "" };
    struct gpu_allocations *d = gpu_open(loop, &err);

    said[0] = '\0';
    if (!d || gpu_query(d, known, NULL, &err) < 0)
        diag("%s", err.text);
    await();
    return d;
}

static bool takes(struct gpu_allocations *d, uint32_t first, size_t n)
{
    const uint32_t worker[] = { first, first + 1 };
    struct err err = { "" };

    return gpu_take(d, worker, n, 1, false, &err) == 0;
}

static void present(const struct stage *s, const char *facts)
{
    char text[512];

    snprintf(text, sizeof text, "count 2\nprocess 0 %ld 1024\nprocess 1 %ld 2048\n%s", ranks[0].pid,
             ranks[1].pid, facts);
    stage_set(s, text);
}

static void leases_go_and_come(void)
{
    struct gpu_allocations *one = notebook(), *two = notebook();

    ok(takes(one, 2, 2) && !takes(two, 2, 1), "one notebook has both GPUs");
    park(one);
    ok(strstr(said, BOTH("parked")) && strstr(said, "\"held\":false"), "they are parked: %s", said);
    ok(gpu_has(one, 2) && takes(two, 2, 1), "so another notebook takes one");
    bring_back(one);
    ok(strstr(said, BOTH("parked")) && strstr(said, "\"held\":true") &&
           strstr(said, "GPU 0 (GPU-a000") && strstr(said, "is held by "),
       "then both stay parked: %s", said);
    ok(takes(two, 3, 1), "without a lease, also of the other one");
    gpu_release(two, 2);
    bring_back(one);
    ok(strstr(said, "GPU 1 (GPU-a001") && strstr(said, "\"held\":true"),
       "as long as one is held: %s", said);
    gpu_release(two, 3);
    bring_back(one);
    ok(strstr(said, BOTH("running")) && strstr(said, "\"why\":null"), "then they come back: %s",
       said);
    ok(!takes(two, 2, 1), "with their leases");
    gpu_close(one);
    ok(takes(two, 2, 2), "which end with them");
    gpu_close(two);
}

/* Parked workers wait for what they had. */
static void they_wait_by_name(void)
{
    struct gpu_allocations *one = notebook(), *two = notebook(), *three = notebook();

    ok(takes(one, 2, 2), "one notebook has both GPUs");
    park(one);
    ok(takes(two, 2, 1), "another one has GPU 0");
    waits = true;
    bring_back(one);
    ok(strstr(said, BOTH("parked")) && strstr(said, "\"held\":true") &&
           strstr(said, "\"queue\":{\"ahead\":0,\"why\":\"\",\"stuck\":\"\"}"),
       "its workers are first in the queue: %s", said);
    ok(!takes(three, 2, 1), "GPU 1 is kept for them, also from one that has not asked before");
    waits = false;
    gpu_wait(three, 1);
    said[0] = '\0';
    gpu_list(three, take_text, NULL);
    await();
    ok(strstr(said, ", who waits for it\"") && strstr(said, "\"ahead\":1"), "which is told: %s",
       said);
    gpu_release(two, 2);
    bring_back(one);
    ok(strstr(said, BOTH("running")), "they come back when both are free: %s", said);
    gpu_wait(one, 0);
    park(one);
    gpu_list(three, take_text, NULL);
    said[0] = '\0';
    await();
    bring_back(one);
    ok(strstr(said, BOTH("parked")) && strstr(said, "\"held\":true") &&
           strstr(said, " is kept for ") && strstr(said, ", who waits for it"),
       "those who wait come first, also before parked ones that return: %s", said);
    gpu_wait(three, 0);
    bring_back(one);
    ok(strstr(said, BOTH("running")), "when nobody waits, they return: %s", said);
    gpu_close(three);
    gpu_close(two);
    gpu_close(one);
}

/* Another notebook's ranks are being parked, and take nearly all of the machine's memory. */
static _Noreturn void park_meanwhile(void)
{
    struct headroom_others others;
    struct headroom r;

    stage_is_up(headroom_take(&r, ALL, all_memory, NULL, UINT64_MAX, &others) && r.fd >= 0);
}

/* It is asked to park, and waits. */
static struct gpu_allocations *wait_for_memory(void)
{
    struct gpu_allocations *one = notebook();
    struct err err = { "" };
    struct watch *moment;

    ok(takes(one, 2, 2), "a notebook has both GPUs");
    said[0] = '\0';
    gpu_park(one, ranks, 2, false, take_text, NULL);
    moment = loop_timer(loop, 2 * NS_PER_S, 0, known, NULL, &err);
    await();
    is_text(said, "known", "it waits while others have reserved the memory");
    watch_stop(moment);
    said[0] = '\0';
    return one;
}

static void others_that_park_come_first(void)
{
    const pid_t other = stage_start("a.ipynb", 0, "park", NULL);
    struct gpu_allocations *one = wait_for_memory();

    stage_end(other);
    await();
    ok(strstr(said, BOTH("parked")) && strstr(said, "\"why\":null"), "and then parks: %s", said);
    bring_back(one);
    gpu_close(one);
}

/* What its process was asked last may go on for a moment, so where the ranks are is not known then.
 */
static void one_that_waits_for_memory_can_end(void)
{
    const pid_t other = stage_start("a.ipynb", 0, "park", NULL);

    gpu_close(wait_for_memory());
    ok(strstr(said, "GiB are reserved for ranks that are being parked, of ") ||
           strstr(said, "the agent ends"),
       "its end is an answer: %s", said);
    stage_end(other);
}

static void failures(const struct stage *s)
{
    struct gpu_allocations *one = notebook(), *two = notebook();

    ok(takes(one, 2, 2), "a notebook has both GPUs");
    present(s, "crash cuCheckpointProcessCheckpoint\n");
    park(one);
    ok(strstr(said, BOTH("running")) && strstr(said, "has ended"),
       "a driver that crashes: another process brings all back: %s", said);
    ok(!takes(two, 2, 1), "and they keep their leases");
    present(s, "fail cuCheckpointProcessLock 600\n");
    park(one);
    ok(strstr(said, BOTH("running")) && strstr(said, "could not be locked") && !takes(two, 2, 1),
       "so do those that can't be locked: %s", said);
    present(s, "");
    park(one);
    present(s, "fail cuCheckpointProcessRestore 2\n");
    bring_back(one);
    ok(strstr(said, BOTH("parked")) && strstr(said, "\"held\":false") && takes(two, 2, 2),
       "those that can't come back give up their leases again: %s", said);
    gpu_release(two, 2);
    gpu_release(two, 3);
    present(s, "crash cuCheckpointProcessRestore\n");
    bring_back(one);
    ok(strstr(said, BOTH("lost")), "nobody knows what has become of them: %s", said);
    present(s, "");
    gpu_release(one, 2);
    gpu_release(one, 3);
    ok(takes(two, 2, 2), "their ends free the GPUs");
    gpu_close(one);
    gpu_close(two);
}

/* The process that asks the driver: our only child besides the ranks. */
static void end_asker(void)
{
    FILE *f = fopen("/proc/thread-self/children", "re");
    long pid;

    while (f && fscanf(f, "%ld", &pid) == 1)
        if (pid != ranks[0].pid && pid != ranks[1].pid) {
            (void)kill((pid_t)pid, SIGKILL);
            (void)waitpid((pid_t)pid, NULL, 0);
        }
    if (f)
        fclose(f);
}

/* What is not known is not away: others may not get these GPUs. */
static void a_driver_that_can_not_be_opened_again(const struct stage *s)
{
    struct gpu_allocations *one = notebook(), *two = notebook();

    present(s, "");
    ok(takes(one, 2, 2), "a notebook has both GPUs");
    park(one);
    bring_back(one);
    present(s, "crash cuCheckpointProcessCheckpoint\nfail cuInit 100\n");
    park(one);
    ok(strstr(said, BOTH("lost")) && strstr(said, "has ended"), "nobody knows where they are: %s",
       said);
    ok(!takes(two, 2, 1), "and they keep their leases until they end");
    gpu_close(two);
    gpu_close(one);

    present(s, "");
    one = notebook();
    ok(takes(one, 2, 2), "a notebook has both GPUs");
    park(one);
    end_asker();
    bring_back(one);
    ok(strstr(said, BOTH("parked")), "what could not be asked has not moved: %s", said);
    two = notebook();
    ok(takes(two, 2, 2), "others can have the GPUs still");
    gpu_close(two);
    bring_back(one);
    ok(strstr(said, BOTH("running")), "later they come back: %s", said);
    gpu_close(one);
}

static void what_ends_while_parked(void)
{
    struct gpu_allocations *one = notebook();

    ok(takes(one, 2, 2), "a notebook has both GPUs");
    park(one);
    gpu_release(one, 2);
    ok(takes(one, 4, 1) && gpu_has(one, 3), "the place of a parked worker that ended is free");
    gpu_close(one);
}

int main(int argc, char **argv)
{
    struct err err = { "" };
    struct stage s;

    if (argc > 1 && strcmp(argv[1], "park") == 0)
        park_meanwhile();
    (void)signal(SIGPIPE, SIG_IGN);
    settings_open_log("moves.t");
    stage_open(&s);
    loop = loop_create(&clock_system, &err);
    for (int k = 0; k < 2; k++)
        if ((ranks[k].pid = fork()) == 0)
            for (;;)
                pause();
    present(&s, "");
    leases_go_and_come();
    they_wait_by_name();
    others_that_park_come_first();
    failures(&s);
    a_driver_that_can_not_be_opened_again(&s);
    present(&s, "");
    one_that_waits_for_memory_can_end();
    what_ends_while_parked();
    for (int k = 0; k < 2; k++) {
        (void)kill((pid_t)ranks[k].pid, SIGKILL);
        (void)waitpid((pid_t)ranks[k].pid, NULL, 0);
    }
    loop_destroy(loop);
    stage_close(&s);
    return plan_done();
}
