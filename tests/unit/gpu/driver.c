/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of worker/agent/gpu/driver.h, with doubles of the driver's libraries. */
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/library.h"
#include "base/process.h"
#include "tests/unit/chaos.h"
#include "tests/unit/gpu/stage.h"
#include "worker/agent/gpu/driver.h"
#include "worker/agent/gpu/probe.h"

static struct gpu_driver d; /* large */

static void find(const char *visible)
{
    struct err err = { "" };

    ok(driver_find(&d, visible, &err) == 0, "GPUs are looked for: %s", err.text);
}

/* Uuids without what is alike. */
static void has(const char *want, const char *name)
{
    struct buf got = BUF_INIT;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < d.gpus.n; i++)
        rc = buf_addf(&got, "%s%.7s", i ? " " : "", d.gpus.v[i].uuid);
    is_text(rc == 0 && got.n ? got.p : "", want, "%s", name);
    buf_release(&got);
}

static void fresh(const struct stage *s, const char *facts)
{
    driver_release(&d);
    driver_init(&d);
    stage_set(s, facts);
}

static void eight_are_found(const struct stage *s)
{
    const struct gpu *g;

    fresh(s, "node 3 1\ncpus 3 f0\n");
    find(NULL);
    is_int(d.gpus.n, 8, "eight GPUs");
    is_text(d.gpus.driver, "550.54.15", "the driver's version");
    ok(d.gpus.numbered, "which have the numbers that CUDA gives them in the order of PCI");
    g = &d.gpus.v[3];
    ok(strcmp(g->name, "NVIDIA A100-SXM4-80GB") == 0 && g->memory == 80ull << 30 && g->index == 3 &&
           g->instance == -1,
       "name, memory, index");
    ok(g->numa == 1 && strcmp(g->cpus, "4-7") == 0 && strcmp(g->pci, "0dad:3e:00.0") == 0,
       "node, processors, address: %d %s %s", g->numa, g->cpus, g->pci);
    find("2,1");
    has("GPU-a00 GPU-a00", "those that are visible");
    ok(d.gpus.v[0].index == 2 && d.gpus.all == 8, "in that order");
    find("7,8");
    ok(d.gpus.n == 1 && d.gpus.v[0].index == 7, "until the first that is none");
    find("");
    ok(d.gpus.n == 0 && strstr(d.gpus.why, "none of 8"), "none: %s", d.gpus.why);
}

static void instances_stand_for_their_gpu(const struct stage *s)
{
    fresh(s, "count 2\nmig 1 2\nprocess 1.2 77 100\nmemory 201 5\nuse 1 50\n");
    find(NULL);
    has("GPU-a00 MIG-b10 MIG-b20", "a GPU and two instances");
    ok(!d.gpus.numbered, "beside which numbers say nothing");
    ok(d.gpus.v[2].instance == 2 && d.gpus.v[2].index == 1 && d.gpus.v[2].memory == 10ull << 30 &&
           d.gpus.v[2].gi == 8,
       "an instance has numbers and memory of its own");
    find("MIG-b2");
    has("MIG-b20", "one of them");
    find("1");
    has("MIG-b10 MIG-b20", "or all of a GPU");
}

static void broken_drivers_are_explained(const struct stage *s)
{
    fresh(s, "");
    setenv("CELLSPAN_NVML_LIBRARY", "/nowhere/libnvidia-ml.so", 1);
    setenv("CELLSPAN_CUDA_LIBRARY", "/nowhere/libcuda.so", 1);
    find(NULL);
    ok(d.gpus.n == 0 && strstr(d.gpus.why, "no driver") && strstr(d.gpus.why, "/nowhere/"),
       "no library: %s", d.gpus.why);
    stage_library("CELLSPAN_NVML_LIBRARY", "libnvidia-ml-broken.so");
    find(NULL);
    ok(d.gpus.n == 0 && strstr(d.gpus.why, "has no nvmlDeviceGetUUID: it is too old or broken"),
       "a function that must be there: %s", d.gpus.why);
    stage_library("CELLSPAN_NVML_LIBRARY", "libnvidia-ml.so");
    fresh(s, "fail nvmlInit_v2 9\n");
    find(NULL);
    ok(d.gpus.n == 0 && strstr(d.gpus.why, "not loaded"), "no kernel module: %s", d.gpus.why);
    fresh(s, "fail nvmlInit_v2 18\n");
    find(NULL);
    ok(strstr(d.gpus.why, "reboot"), "an updated driver: %s", d.gpus.why);
    fresh(s, "fail nvmlInit_v2 4\n");
    find(NULL);
    ok(strstr(d.gpus.why, "permission"), "no permission: %s", d.gpus.why);
    fresh(s, "fail nvmlInit_v2 999\n");
    find(NULL);
    ok(strstr(d.gpus.why, "999"), "anything else: %s", d.gpus.why);
    stage_set(s, "");
    find(NULL);
    is_int(d.gpus.n, 8, "and when it works again, they are there");
    fresh(s, "count 0\n");
    find(NULL);
    ok(d.gpus.n == 0 && strstr(d.gpus.why, "no GPU"), "a driver without GPUs: %s", d.gpus.why);
    fresh(s, "lost 1\n");
    find(NULL);
    ok(d.gpus.n == 7 && d.gpus.v[1].index == 2, "one that is lost is left out");
    fresh(s, "fail nvmlDeviceGetCount_v2 999\n");
    ok(driver_find(&d, NULL, NULL) < 0, "they can't be counted");
    stage_library("CELLSPAN_CUDA_LIBRARY", "libcuda.so");
}

static void cuda_alone_will_do(const struct stage *s)
{
    json_t *list;
    struct gpu_processes nobody = GPU_PROCESSES_INIT;

    setenv("CELLSPAN_NVML_LIBRARY", "/nowhere/libnvidia-ml.so", 1);
    fresh(s, "count 2\n");
    find(NULL);
    has("GPU-a00 GPU-a00", "two GPUs by the CUDA driver");
    ok(!d.gpus.numbered, "whose numbers are of another order, perhaps");
    ok(strcmp(d.gpus.v[1].uuid, "GPU-a0011234-0000-4000-8000-0123456789ab") == 0 &&
           d.gpus.v[1].memory == 80ull << 30 && !d.gpus.why[0] &&
           strcmp(d.gpus.driver, "CUDA 12.4") == 0,
       "with the names that NVML has: %s", d.gpus.v[1].uuid);
    list = readings_list(&d, NULL, NULL, &nobody);
    ok(json_array_size(list) == 2 && json_is_null(json_object_get(json_array_get(list, 0), "used")),
       "what it can't tell is null");
    json_decref(list);
    fresh(s, "fail cuInit 100\n");
    find(NULL);
    ok(d.gpus.n == 0 && strstr(d.gpus.why, "no driver"), "no device is no error: %s", d.gpus.why);
    fresh(s, "fail cuInit 3\n");
    find(NULL);
    ok(d.gpus.n == 0 && strstr(d.gpus.why, "CUDA driver"), "a broken one is told: %s", d.gpus.why);
    stage_library("CELLSPAN_NVML_LIBRARY", "libnvidia-ml.so");
}

/* {"ask": …} as the agent's; the answer's text without its newline, in one buffer. */
static const char *ask(const char *question)
{
    static struct buf out;

    if (!question)
        buf_release(&out);
    buf_clear(&out);
    if (question &&
        probe_answer(&d, getenv("CUDA_VISIBLE_DEVICES"), slice_text(question), &out) < 0)
        return "(memory)";
    if (out.n)
        out.p[--out.n] = '\0';
    return out.n ? out.p : "";
}

static void has_text(const char *text, const char *part, const char *name)
{
    if (!ok(strstr(text, part), "%s", name))
        diag("  %s is not in %s", part, text);
}

static void readings_are_taken(const struct stage *s)
{
    char question[256];
    const char *said;

    fresh(s,
          "count 2\nmemory 1 2048\nuse 1 97\nprocess 1 999999 1024\nprocess 0 1 -1\necc 0 3 1\n");
    find(NULL);
    snprintf(question, sizeof question,
             "{\"ask\": \"read\", \"workers\": [{\"worker\": 2, \"pid\": %ld, \"who\": \"rank 0\", "
             "\"gpus\": [\"x\"]}]}",
             (long)getpid());
    said = ask(question);
    has_text(said, "\"used\":2147483648,\"total\":85899345920,\"use\":97,\"lost\":false",
             "memory without what the driver keeps, and use");
    has_text(said, "\"others\":[{\"pid\":999999,\"memory\":1073741824,\"who\":\"\"}]",
             "processes of others");
    has_text(said, "\"pid\":1,\"memory\":null", "whose memory may be unknown");
    has_text(said, "\"corrected\":3,\"uncorrected\":1", "ECC counts");
    has_text(said, "\"workers\":[{\"worker\":2,\"memory\":", "memory of workers");
    ok(!strstr(said, "\"memory\":0,\"gpus\":[\"x\"]") && strstr(said, "\"gpus\":[\"x\"]"),
       "more than none, and their GPUs");
    snprintf(question, sizeof question, "count 1\nprocess 0 %ld 10\n", (long)getpid());
    fresh(s, question);
    find(NULL);
    snprintf(question, sizeof question,
             "{\"ask\": \"read\", \"workers\": [{\"worker\": 2, \"pid\": %ld, \"who\": \"rank 0\", "
             "\"gpus\": []}]}",
             (long)getpid());
    has_text(ask(question), "\"ours\":[{\"worker\":2,", "a worker's own process is ours");
    has_text(ask("{\"ask\": \"nothing\"}"), "error", "nonsense is refused");
    has_text(ask("nonsense"), "error", "whatever it is");
    has_text(ask("{\"ask\": \"list\"}"), "\"gpus\":[{\"uuid\":\"GPU-a000",
             "and the next question answered");
}

/* Is the list of processes that the doubles show taken for all of them? */
static bool knows_processes(const char *facts, const struct stage *s)
{
    fresh(s, facts);
    find(NULL);
    return strstr(ask("{\"ask\": \"read\", \"workers\": []}"), "\"processes_known\":true") != NULL;
}

static void an_empty_list_of_a_used_gpu_tells_nothing(const struct stage *s)
{
    ok(knows_processes("count 1\nmemory 0 600\nprocess 0 999999 500\n", s),
       "a list with a process is true");
    ok(knows_processes("count 1\nmemory 0 4\n", s), "so is an empty one of a GPU that nobody uses");
    ok(!knows_processes("count 1\nmemory 0 600\n", s),
       "an empty one of a GPU with as much in use as one process needs is not: who is there is "
       "unknown");
    ok(!knows_processes("count 1\nmemory 0 4\nfail nvmlDeviceGetComputeRunningProcesses_v3 4\n", s),
       "nor is one that the driver refuses");
}

static void many_processes_are_read(const struct stage *s)
{
    char facts[4096] = "count 1\n";
    json_t *list;
    struct gpu_processes nobody = GPU_PROCESSES_INIT;

    for (unsigned i = 0; i < 100; i++)
        snprintf(facts + strlen(facts), sizeof facts - strlen(facts), "process 0 %u 1\n",
                 1000000 + i);
    fresh(s, facts);
    find(NULL);
    list = readings_list(&d, NULL, NULL, &nobody);
    is_int(json_array_size(json_object_get(json_array_get(list, 0), "others")), 100,
           "a list that is longer than we thought");
    json_decref(list);
    stage_library("CELLSPAN_NVML_LIBRARY", "libnvidia-ml-old.so");
    fresh(s, facts);
    find(NULL);
    list = readings_list(&d, NULL, NULL, &nobody);
    ok(json_array_size(json_object_get(json_array_get(list, 0), "others")) == 100 &&
           json_integer_value(
               json_object_get(json_array_get(json_object_get(json_array_get(list, 0), "others"),
                                              99),
                               "pid")) == 1000099,
       "and of an old driver, whose entries are shorter");
    has_text(
        ask("{\"ask\": \"mark\", \"worker\": 2, \"gpus\": [\"GPU-a0001234-0000-4000-8000-0123456789ab\"]}"),
        "{}", "which tells no events");
    has_text(ask("{\"ask\": \"since\", \"worker\": 2, \"gpus\": [], \"workers\": []}"),
             "\"xids\":[]", "so there are none");
    json_decref(list);
    stage_library("CELLSPAN_NVML_LIBRARY", "libnvidia-ml.so");
}

#define ZERO "GPU-a0001234-0000-4000-8000-0123456789ab"
#define ONE  "GPU-a0011234-0000-4000-8000-0123456789ab"

static void errors_belong_to_whom_they_hit(const struct stage *s)
{
    fresh(s, "xid 0 13\necc 0 1 0\n");
    find(NULL);
    ask("{\"ask\": \"mark\", \"worker\": 2, \"gpus\": [\"" ZERO "\"]}");
    stage_set(s, "xid 0 13\nxid 0 31\nxid 1 79\necc 0 4 0\n");
    ask("{\"ask\": \"mark\", \"worker\": 3, \"gpus\": [\"" ZERO "\", \"" ONE "\"]}");
    stage_set(s, "xid 0 13\nxid 0 31\nxid 1 79\nxid 0 31\nxid 7 74\necc 0 4 2\n");
    is_text(ask("{\"ask\": \"since\", \"worker\": 2, \"gpus\": [], \"workers\": []}"),
            "{\"xids\":[{\"uuid\":\"" ZERO "\",\"xid\":31,\"times\":2}],\"ecc\":[{\"uuid\":\"" ZERO
            "\",\"corrected\":3,\"uncorrected\":2}],\"gpus\":[]}",
            "what came since it started, on its GPU");
    is_text(ask("{\"ask\": \"since\", \"worker\": 3, \"gpus\": [], \"workers\": []}"),
            "{\"xids\":[{\"uuid\":\"" ZERO "\",\"xid\":31,\"times\":1}],\"ecc\":[{\"uuid\":\"" ZERO
            "\",\"corrected\":0,\"uncorrected\":2}],\"gpus\":[]}",
            "and for another one that shares it and started later");
    is_text(ask("{\"ask\": \"since\", \"worker\": 3, \"gpus\": [], \"workers\": []}"),
            "{\"xids\":[],\"ecc\":[],\"gpus\":[]}", "it is told once");
    ask("{\"ask\": \"mark\", \"worker\": 4, \"gpus\": [\"" ONE "\"]}");
    stage_set(s, "xid 0 13\nxid 0 31\nxid 1 79\nxid 0 31\nxid 7 74\nxid 1 79\nlost 1\n");
    has_text(ask("{\"ask\": \"since\", \"worker\": 4, \"gpus\": [\"" ONE "\"], \"workers\": []}"),
             "\"xid\":79", "one that fell off the bus is known by its handle");
    has_text(ask("{\"ask\": \"since\", \"worker\": 4, \"gpus\": [\"" ONE "\"], \"workers\": []}"),
             "\"lost\":true", "and is lost");
}

static void instances_have_their_own_errors(const struct stage *s)
{
    fresh(s, "count 2\nmig 1 2\n");
    find(NULL);
    ask("{\"ask\": \"mark\", \"worker\": 2, \"gpus\": [\"MIG-b1015678-0000-4000-8000-0123456789ab\"]}");
    ask("{\"ask\": \"mark\", \"worker\": 3, \"gpus\": [\"MIG-b2015678-0000-4000-8000-0123456789ab\"]}");
    stage_set(s, "count 2\nmig 1 2\nxid 1 31 7\nxid 1 48\n");
    is_text(
        ask("{\"ask\": \"since\", \"worker\": 3, \"gpus\": [], \"workers\": []}"),
        "{\"xids\":[{\"uuid\":\"MIG-b2015678-0000-4000-8000-0123456789ab\",\"xid\":48,\"times\":1}],\"ecc\":[],"
        "\"gpus\":[]}",
        "another instance's error is not one's own, the GPU's is");
    has_text(ask("{\"ask\": \"since\", \"worker\": 2, \"gpus\": [], \"workers\": []}"),
             "\"xid\":31", "one's own is");
}

static void any_allocation_may_fail(const struct stage *s)
{
    bool survived = true;
    long nth = 0;
    char gpus[128], ask_read[128]; /* about this process: it has no others below it, as pid 1 has */

    snprintf(gpus, sizeof gpus, "count 2\nmig 1 2\nprocess 0 %ld 1\nprocess 0 2 1\nxid 0 31\n",
             (long)getpid());
    snprintf(
        ask_read, sizeof ask_read,
        "{\"ask\": \"read\", \"workers\": [{\"worker\": 2, \"pid\": %ld, \"who\": \"x\", \"gpus\": []}]}",
        (long)getpid());
    for (bool again = true; again && survived; nth++) {
        const char *said;

        fresh(s, gpus);
        alloc_fail_at(nth);
        said = ask("{\"ask\": \"list\"}");
        if (!strstr(said, "error") && !strstr(said, "(memory)"))
            said = ask(ask_read);
        if (!strstr(said, "error") && !strstr(said, "(memory)"))
            said = ask("{\"ask\": \"mark\", \"worker\": 2, \"gpus\": [\"" ZERO "\"]}");
        if (!strstr(said, "error") && !strstr(said, "(memory)"))
            said = ask("{\"ask\": \"since\", \"worker\": 2, \"gpus\": [\"" ZERO
                       "\"], \"workers\": []}");
        again = alloc_failed();
        alloc_fail_at(-1);
        survived = said[0] != '\0';
    }
    ok(survived && nth > 20, "each of %ld allocations may fail: there is an answer, or an error",
       nth);
}

static void drivers_are_found_where_the_loader_does_not_look(const struct stage *s)
{
    const char *names[LIBRARY_PLACES];
    char path[256], command[512];

    is_int(library_of_driver(NULL, "libcellspan-test.so", s->dir, names), 1, "the loader alone");
    snprintf(path, sizeof path, "%s/run/opengl-driver/lib/libcellspan-test.so", s->dir);
    snprintf(command, sizeof command, "mkdir -p '%s/run/opengl-driver/lib' && : >'%s'", s->dir,
             path);
    ok(system(command) == 0 && library_of_driver(NULL, "libcellspan-test.so", s->dir, names) == 2 &&
           strcmp(names[0], "libcellspan-test.so") == 0 && strcmp(names[1], path) == 0,
       "then a folder of drivers that the loader does not know");
    ok(library_of_driver("/mine.so", "libcellspan-test.so", s->dir, names) == 1 &&
           strcmp(names[0], "/mine.so") == 0,
       "and nothing but what the user named");
}

/* Uses at least half a second of a processor. */
static uint64_t busy(void)
{
    uint64_t ns = 0;

    while (process_cpu((long)getpid(), &ns) && ns < NS_PER_S / 2)
        ;
    return ns;
}

static json_int_t use(struct cpu_sample *last, const json_t *me)
{
    struct gpu_processes processes = GPU_PROCESSES_INIT;
    struct err err = { "" };
    json_t *list = gpu_processes_fill(&processes, me, &err) == 0
                       ? cpu_use_list(last, me, &processes)
                       : NULL;
    const json_t *first = json_array_get(list, 0);
    const json_int_t percent = json_is_integer(first) ? json_integer_value(first) : -1;

    json_decref(list);
    gpu_processes_release(&processes);
    return percent;
}

static void the_use_of_processors_needs_no_wait(void)
{
    json_t *me = json_pack("[{s:i, s:I}]", "worker", 1, "pid", (json_int_t)getpid());
    struct cpu_sample last = { 0 };
    const json_int_t at_most = (json_int_t)(busy() * 100 / (15 * NS_PER_S));
    json_int_t said;

    ok(use(&last, me) > 0 && last.n == 1, "at first it is what was used since the start");
    last.v[0].ns = 0;
    last.at_ns = clock_now(&clock_system) - 15 * NS_PER_S;
    said = use(&last, me);
    ok(said > 0 && said >= at_most / 2, "then what was used since the sample before, of any age");
    cpu_sample_release(&last);
    json_decref(me);
}

int main(void)
{
    struct stage s;

    stage_open(&s);
    the_use_of_processors_needs_no_wait();
    json_set_alloc_funcs(malloc, free); /* those that fail on demand */
    eight_are_found(&s);
    instances_stand_for_their_gpu(&s);
    broken_drivers_are_explained(&s);
    cuda_alone_will_do(&s);
    readings_are_taken(&s);
    an_empty_list_of_a_used_gpu_tells_nothing(&s);
    many_processes_are_read(&s);
    errors_belong_to_whom_they_hit(&s);
    instances_have_their_own_errors(&s);
    any_allocation_may_fail(&s);
    drivers_are_found_where_the_loader_does_not_look(&s);
    driver_release(&d);
    ask(NULL);
    stage_close(&s);
    return plan_done();
}
