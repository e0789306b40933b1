/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of worker/agent/gpu/gpu.h: GPUs through the real process cellspan-gpus with a double of the
 * driver, and leases. */
#include <signal.h>
#include <sched.h>
#include <sys/wait.h>

#include "base/settings.h"
#include "tests/unit/chaos.h"
#include "tests/unit/gpu/stage.h"
#include "worker/agent/gpu/gpu.h"
#include "worker/agent/gpu/allocations.h"

#define LIMIT_NS (60 * NS_PER_S)
#define UUID(n)  "GPU-a00" #n "1234-0000-4000-8000-0123456789ab"

struct asked {
    struct loop *loop;
    bool known;
    char text[65536];
};

static void too_long(void *loop)
{
    ok(false, "an answer comes in time");
    loop_stop(loop);
}

static void came(struct asked *q, const char *text, size_t n)
{
    q->known = true;
    snprintf(q->text, sizeof q->text, "%.*s", (int)n, text);
    loop_stop(q->loop);
}

static void awake(void *loop)
{
    loop_stop(loop);
}

static void known(void *arg)
{
    came(arg, "", 0);
}

static void json(void *arg, struct slice text)
{
    came(arg, text.p, text.n);
}

static void told(void *arg, const char *text)
{
    came(arg, text, strlen(text));
}

/* Runs the loop until the answer is there, unless it is already. */
static const char *await(struct asked *q)
{
    struct err err = { "" };
    struct watch *limit;

    if (q->known)
        return q->text;
    limit = loop_timer(q->loop, LIMIT_NS, 0, too_long, q->loop, &err);
    ok(limit && loop_run(q->loop, &err) == 0, "the loop runs: %s", err.text);
    watch_stop(limit);
    return q->text;
}

static struct asked q;

static struct asked *ask(struct loop *loop)
{
    q.loop = loop;
    q.known = false;
    q.text[0] = '\0';
    return &q;
}

static const char *list(struct gpu_allocations *d, struct loop *loop)
{
    gpu_list(d, json, ask(loop));
    return await(&q);
}

static void look(struct gpu_allocations *d, struct loop *loop)
{
    struct err err = { "" };

    ok(gpu_query(d, known, ask(loop), &err) == 0, "GPUs are looked for: %s", err.text);
    await(&q);
}

static int take(struct gpu_allocations *d, uint32_t first, size_t n, unsigned each, bool share,
                const char *why)
{
    uint32_t worker[64];
    struct err err = { "" };
    int rc;

    for (size_t i = 0; i < n; i++)
        worker[i] = first + (uint32_t)i;
    rc = gpu_take(d, worker, n, each, share, &err);
    if (why && !ok(rc < 0 && strstr(err.text, why), "%zu workers with %u: %s", n, each, err.text))
        diag("  %s is not in it", why);
    else if (!why)
        ok(rc == 0, "%zu workers get %u GPUs each%s: %s", n, each, share ? ", shared" : "",
           err.text);
    return rc;
}

/* The numbers of the GPUs that a worker sees, "0,3", and which of these are its own. */
static void sees_with(const struct gpu_allocations *d, uint32_t worker, const uint32_t *mate,
                      size_t n, const char *want, const char *own)
{
    struct buf text = BUF_INIT, mine = BUF_INIT;

    if (gpu_visible(d, worker, mate, n, &text, &mine) < 0)
        ok(false, "memory");
    is_text(text.n ? text.p : "", want, "worker %u", worker);
    if (own)
        is_text(mine.n ? mine.p : "", own, "its own among them");
    buf_release(&text);
    buf_release(&mine);
}

static void sees(const struct gpu_allocations *d, uint32_t worker, const char *want)
{
    sees_with(d, worker, &worker, 1, want, NULL);
}

/* As torchrun has it: the number of a rank on its machine is that of its GPU. */
static void ranks_see_those_of_their_mates(struct gpu_allocations *d, struct loop *loop)
{
    static const uint32_t mates[] = { 2, 3, 4 }, later[] = { 2, 9, 4, 5 };

    look(d, loop);
    take(d, 2, 3, 2, false, NULL);
    sees_with(d, 2, mates, 3, "0,1,2,3,4,5", "0,1");
    sees_with(d, 4, mates, 3, "0,1,2,3,4,5", "4,5");
    gpu_release(d, 3);
    take(d, 9, 1, 2, false, NULL);
    take(d, 5, 1, 2, false, NULL);
    sees_with(d, 9, later, 4, "0,1,2,3,4,5,6,7", "2,3");
    gpu_release(d, 5);
    take(d, 5, 1, 1, true, NULL);
    sees_with(d, 5, later, 4, "6", "0");
    sees_with(d, 4, later, 4, "0,1,2,3,4,5", "4,5");
    sees_with(d, 77, later, 4, "", "");
    for (uint32_t w = 2; w < 10; w++)
        gpu_release(d, w);
}

static void each_rank_has_its_own(struct gpu_allocations *d, struct loop *loop)
{
    look(d, loop);
    take(d, 2, 4, 1, false, NULL);
    sees(d, 2, "0");
    sees(d, 5, "3");
    take(d, 6, 2, 2, false, NULL);
    sees(d, 6, "4,5");
    sees(d, 7, "6,7");
    take(d, 8, 1, 1, false, "this node has 8, of which 0 are free");
    ok(!gpu_has(d, 8), "who gets none has none");
    gpu_release(d, 3);
    take(
        d, 8, 2, 1, false,
        "1 is free; held: GPU 0 (GPU-a000…, NVIDIA A100-SXM4-80GB) by other ranks of this notebook");
    take(d, 8, 1, 1, false, NULL);
    sees(d, 8, "1");
    take(d, 20, 9, 1, false, "use at most 8 ranks, --share");
    take(d, 20, 1, 9, true, "--gpus 8 or fewer");
    for (uint32_t i = 2; i < 9; i++)
        gpu_release(d, i);
}

static void shared_ones_are_spread(struct gpu_allocations *d)
{
    take(d, 2, 10, 1, true, NULL);
    sees(d, 2, "0");
    sees(d, 9, "7");
    sees(d, 10, "0");
    sees(d, 11, "1");
    for (uint32_t i = 2; i < 12; i++)
        gpu_release(d, i);
}

static void what_is_lent_lasts_for_both(struct gpu_allocations *d)
{
    static const uint32_t residents[] = { 2, 3 }, script[] = { 12, 13 };
    struct err err = { "" };

    take(d, 2, 2, 4, false, NULL);
    ok(gpu_lend(d, 2, 12, &err) == 0 && gpu_lend(d, 3, 13, &err) == 0, "they are lent: %s",
       err.text);
    sees_with(d, 13, script, 2, "0,1,2,3,4,5,6,7", "4,5,6,7");
    sees_with(d, 3, residents, 2, "0,1,2,3,4,5,6,7", "4,5,6,7");
    gpu_release(d, 2);
    take(d, 5, 1, 1, false, "this node has 8, of which 0 are free");
    gpu_release(d, 12);
    take(d, 5, 1, 4, false, NULL);
    ok(gpu_lend(d, 77, 12, &err) < 0 && strstr(err.text, "no GPUs to lend"),
       "who has none lends none");
    gpu_release(d, 3);
    gpu_release(d, 13);
    gpu_release(d, 5);
}

static void two_notebooks_differ(struct gpu_allocations *one, struct loop *loop)
{
    struct err err = { "" };
    struct gpu_allocations *two = gpu_open(loop, &err);
    const char *said;

    setenv("JPY_SESSION_NAME", "work/digits.ipynb", 1);
    take(one, 2, 5, 1, false, NULL);
    look(two, loop);
    take(two, 2, 4, 1, false,
         "of which 3 are free; held: GPU 0 (GPU-a000…, NVIDIA A100-SXM4-80GB) by ");
    take(two, 2, 4, 1, false, "digits.ipynb (pid ");
    take(two, 2, 3, 1, false, NULL);
    sees(two, 2, "5");
    said = list(two, loop);
    ok(strstr(said, "digits.ipynb (pid ") && strstr(said, "\"leased_by\":null"),
       "the list says what others have");
    take(two, 9, 2, 1, true, NULL);
    sees(two, 9, "0");
    gpu_close(one);
    take(two, 20, 4, 1, false, "3 are free");
    take(two, 20, 3, 1, false, NULL);
    sees(two, 20, "2");
    gpu_close(two);
    unsetenv("JPY_SESSION_NAME");
}

/* A lock file that somebody removes is there again before long: the agent's own timer sees to it.
 */
static void leases_are_looked_after(struct gpu_allocations *one, struct loop *loop,
                                    const struct stage *s)
{
    const uint64_t until_ns = clock_now(&clock_system) + LIMIT_NS;
    struct err err = { "" };
    char command[160];
    struct watch *nap;

    take(one, 2, 1, 8, false, NULL);
    snprintf(command, sizeof command, "rm -r '%s'", s->leases);
    ok(system(command) == 0, "all lock files are gone, and their folder");
    while (access(s->leases, F_OK) < 0 && clock_now(&clock_system) < until_ns) {
        nap = loop_timer(loop, 50 * NS_PER_MS, 0, awake, loop, &err);
        if (!nap || loop_run(loop, &err) < 0)
            break;
        watch_stop(nap);
    }
    {
        struct gpu_allocations *two = gpu_open(loop, &err);

        look(two, loop);
        take(two, 3, 1, 1, false, "held: GPU 0");
        gpu_close(two);
    }
    gpu_release(one, 2);
}

static void gauges_are_told(struct gpu_allocations *d, struct loop *loop, const struct stage *s)
{
    struct gpu_worker me[2] = { { 1, (long)getpid(), "home" }, { 2, 0, "rank 0" } };
    const char *said;

    stage_set(s, "memory 0 1024\nuse 0 42\nprocess 0 999999 77\n");
    take(d, 2, 1, 1, false, NULL);
    gpu_gauges(d, me, 2, json, ask(loop));
    said = await(&q);
    ok(strstr(said, "\"use\":42") && strstr(said, "\"pid\":999999") &&
           strstr(said, "{\"worker\":1,\"memory\":") && strstr(said, "\"gpus\":[\"GPU-a0001234"),
       "memory, use, others, workers: %.200s", said);
    gpu_release(d, 2);
}

static const char *report_death(struct gpu_allocations *d, struct loop *loop, uint32_t worker,
                                const char *said)
{
    const struct gpu_worker me = { 3, (long)getpid(), "rank 1" };

    gpu_death_report(d, worker, slice_text(said), &me, 1, told, ask(loop));
    return await(&q);
}

/* The driver has 0.7 s, which its double may miss on a busy machine. */
static bool was_late(const char *said)
{
    return strstr(said, "does not answer") != NULL;
}

/* Of a worker to whose GPUs nothing happened. */
static const char *autopsy_in_time(struct gpu_allocations *d, struct loop *loop, uint32_t worker)
{
    const char *said = report_death(d, loop, worker, "");

    for (int tries = 1; was_late(said) && tries < 20; tries++) {
        look(d, loop); /* until the late answer has come */
        said = report_death(d, loop, worker, "");
    }
    return said;
}

/* false: the driver was too late; the next time it may not be. */
static bool death_is_explained(struct gpu_allocations *d, struct loop *loop, const struct stage *s,
                               int xids)
{
    char facts[1024] = "", want[512];
    size_t n = 0;
    const char *said;
    bool late;

    stage_set(s, "");
    take(d, 2, 2, 1, false, NULL);
    look(d, loop); /* and so the marks are made */
    said = report_death(d, loop, 2, "killed");
    if (!(late = was_late(said)))
        is_text(said, "GPU 0 (GPU-a000…, NVIDIA A100-SXM4-80GB)", "nothing happened");
    for (; xids > 0; xids--) /* one more than there were */
        n += (size_t)snprintf(facts + n, sizeof facts - n, "xid 1 79\n");
    snprintf(facts + n, sizeof facts - n,
             "memory 1 81000\nprocess 1 %ld 50000\nprocess 1 999999 30000\n", (long)getpid());
    stage_set(s, facts);
    snprintf(
        want, sizeof want,
        "GPU 1 (GPU-a001…, NVIDIA A100-SXM4-80GB): Xid 79: GPU has fallen off the bus: it is gone until this node "
        "is restarted "
        "(heat, power or PCIe); its memory ran out; now in use: 79.1 GiB of 80.0 GiB, 29.3 GiB by pid 999999, "
        "48.8 GiB by rank 1 "
        "(pid %ld)",
        (long)getpid());
    said = report_death(d, loop, 3, "torch.OutOfMemoryError: CUDA out of memory.");
    if (!(late = late || was_late(said)))
        is_text(said, want, "an Xid, and whose memory it is");
    is_text(report_death(d, loop, 77, "x"), "", "who has none has nothing to tell");
    gpu_release(d, 2);
    gpu_release(d, 3);
    return !late;
}

static void deaths_are_explained(struct gpu_allocations *d, struct loop *loop,
                                 const struct stage *s)
{
    int tries = 1;

    while (!death_is_explained(d, loop, s, tries) && tries++ < 20)
        look(d, loop); /* until the late answer has come */
    ok(tries <= 20, "deaths are explained, at the %d. try", tries);
}

static void a_driver_that_hangs_stops_nobody(struct gpu_allocations *d, struct loop *loop,
                                             const struct stage *s)
{
    const char *said;

    stage_set(s, "");
    take(d, 2, 1, 1, false, NULL);
    look(d, loop);
    stage_set(s, "hang nvmlEventSetWait_v2 8000\n");
    said = report_death(d, loop, 2, "x");
    is_text(said, "GPU 0 (GPU-a000…, NVIDIA A100-SXM4-80GB) (the GPU driver does not answer)",
            "a death is told without it");
    gpu_gauges(d, NULL, 0, json, ask(loop));
    said = await(&q);
    ok(strstr(said, "does not answer"), "and nobody in a hurry waits: %s", said);
    stage_set(s, "");
    gpu_release(d, 2);
    said = list(d, loop);
    ok(strstr(said, "GPU-a000"),
       "but who has a minute for the list, without which ranks had no GPUs: %.60s", said);
}

static void a_driver_that_crashes_is_asked_again(struct loop *loop, const struct stage *s)
{
    struct err err = { "" };
    struct gpu_allocations *d = gpu_open(loop, &err);
    const char *said;

    stage_set(s, "crash nvmlInit_v2\n");
    said = list(d, loop);
    ok(strstr(said, "\"gpus\":null") && strstr(said, "has ended"),
       "nobody knows, and it says why: %s", said);
    take(d, 2, 1, 1, false, "has none");
    stage_set(s, "count 1\n");
    said = list(d, loop);
    ok(strstr(said, "GPU-a000"), "the next question starts another process: %s", said);
    gpu_close(d);
}

static void no_gpus_are_no_error(struct loop *loop)
{
    struct err err = { "" };
    struct gpu_allocations *d = gpu_open(loop, &err);
    const char *said;

    setenv("CELLSPAN_NVML_LIBRARY", "/nowhere/a.so", 1);
    setenv("CELLSPAN_CUDA_LIBRARY", "/nowhere/b.so", 1);
    said = list(d, loop);
    ok(strstr(said, "\"gpus\":[]") && strstr(said, "no driver"), "the list says why: %s", said);
    take(d, 2, 2, 1, false,
         "2 GPUs asked for (2 ranks with 1 each), and this node has none: no driver");
    gpu_gauges(d, NULL, 0, json, ask(loop));
    said = await(&q);
    ok(strstr(said, "\"gpus\":[]") && strstr(said, "\"workers\":[]"), "gauges are empty: %s", said);
    ok(!gpu_likely(d), "there are none");
    gpu_close(d);
    stage_library("CELLSPAN_NVML_LIBRARY", "libnvidia-ml.so");
    stage_library("CELLSPAN_CUDA_LIBRARY", "libcuda.so");
}

static void instances_are_one_each(struct loop *loop, const struct stage *s)
{
    struct err err = { "" };
    struct gpu_allocations *d = gpu_open(loop, &err);

    stage_set(s, "count 1\nmig 0 3\n");
    look(d, loop);
    take(d, 2, 1, 2, false, "one MIG instance");
    take(d, 2, 3, 1, false, NULL);
    take(d, 5, 1, 1, false, "this node has 3, of which 0 are free");
    is_text(autopsy_in_time(d, loop, 3),
            "GPU 0 MIG 2 (MIG-b200…, NVIDIA A100-SXM4-80GB MIG 1g.10gb)", "they have names");
    gpu_release(d, 2);
    gpu_release(d, 3);
    gpu_release(d, 4);
    stage_set(s, "count 3\nmig 1 2\n");
    look(d, loop);
    take(d, 2, 2, 2, false, "one MIG instance");
    take(d, 2, 1, 2, false, NULL);
    sees(d, 2, UUID(0) "," UUID(2));
    take(d, 3, 1, 2, true, NULL);
    sees(d, 3, UUID(0) "," UUID(2)); /* CUDA counts otherwise beside instances */
    gpu_close(d);
    stage_set(s, "");
}

static void ranks_stay_near(void)
{
    struct err err = { "" };
    cpu_set_t mine, then;
    const pid_t pid = fork();
    char far[16];

    if (pid == 0)
        for (;;)
            pause();
    sched_getaffinity(0, sizeof mine, &mine);
    is_int(affinity_bind(pid, "", &err), 0, "a GPU that is near nothing");
    is_int(affinity_bind(pid, "0-4000", &err), 0, "or near everything binds nobody");
    snprintf(far, sizeof far, "4001-4002");
    is_int(affinity_bind(pid, far, &err), 0, "nor one that is near none of ours");
    if (CPU_COUNT(&mine) > 1 && CPU_ISSET(1, &mine)) {
        is_int(affinity_bind(pid, "1", &err), 1, "else it is bound: %s", err.text);
        sched_getaffinity(pid, sizeof then, &then);
        ok(CPU_COUNT(&then) == 1 && CPU_ISSET(1, &then), "to what is near");
    } else {
        skip("one processor");
    }
    ok(affinity_bind(pid, "x", &err) < 0, "nonsense is told: %s", err.text);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void any_allocation_may_fail(struct loop *loop)
{
    bool fine = true;
    long nth = 0;

    for (bool again = true; again && fine; nth++) {
        struct err err = { "" };
        struct gpu_allocations *d;
        const uint32_t worker[2] = { 2, 3 };

        alloc_fail_at(nth);
        if ((d = gpu_open(loop, &err)) && gpu_query(d, known, ask(loop), &err) == 0) {
            again = alloc_failed();
            alloc_fail_at(-1);
            await(&q);
            if (again) {
                gpu_close(d);
                continue;
            }
            alloc_fail_at(nth - 20 < 0 ? 0 : nth - 20); /* now the taking */
            if (gpu_take(d, worker, 2, 1, false, &err) < 0)
                fine = err.text[0] && !gpu_has(d, 2) && !gpu_has(d, 3);
        }
        again = alloc_failed();
        alloc_fail_at(-1);
        gpu_close(d);
    }
    ok(fine && nth > 10, "each of %ld allocations may fail: all get GPUs, or none", nth);
}

int main(void)
{
    struct stage s;
    struct err err = { "" };
    struct loop *loop = loop_create(&clock_system, &err);
    struct gpu_allocations *d;

    (void)signal(SIGPIPE, SIG_IGN);
    settings_open_log("allocations.t");
    stage_open(&s);
    d = gpu_open(loop, &err);
    ok(loop && d, "the list of allocations is made: %s", err.text);
    ranks_see_those_of_their_mates(d, loop);
    each_rank_has_its_own(d, loop);
    shared_ones_are_spread(d);
    what_is_lent_lasts_for_both(d);
    leases_are_looked_after(d, loop, &s);
    gauges_are_told(d, loop, &s);
    deaths_are_explained(d, loop, &s);
    a_driver_that_hangs_stops_nobody(d, loop, &s);
    gpu_close(d);
    d = gpu_open(loop, &err);
    look(d, loop);
    two_notebooks_differ(d, loop);
    no_gpus_are_no_error(loop);
    instances_are_one_each(loop, &s);
    any_allocation_may_fail(loop);
    a_driver_that_crashes_is_asked_again(loop, &s);
    ranks_stay_near();
    loop_destroy(loop);
    stage_close(&s);
    return plan_done();
}
