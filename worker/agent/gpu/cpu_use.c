/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_use.c - how much of a processor each worker uses: the difference of two samples of its
 * processor time (declared in driver.h). */
#include <stdlib.h>

#include "base/clock.h"
#include "base/process.h"
#include "worker/agent/gpu/driver.h"

#define MOMENT_NS (200 * NS_PER_MS) /* not over less: the system counts in steps of 10 ms */
#define APART_NS  NS_PER_S          /* a sample replaces one that is older than this */

static unsigned number_of(const json_t *workers, size_t i)
{
    return (unsigned)json_integer_value(json_object_get(json_array_get(workers, i), "worker"));
}

static const struct cpu_worker *find(const struct cpu_sample *sample, unsigned worker)
{
    for (size_t i = 0; i < sample->n; i++)
        if (sample->v[i].worker == worker)
            return &sample->v[i];
    return NULL;
}

static int take_sample(struct cpu_sample *sample, const json_t *workers,
                       const struct gpu_processes *processes)
{
    const size_t n = json_array_size(workers);

    *sample = (struct cpu_sample){ .v = calloc(n + 1, sizeof *sample->v), .n = n };
    if (!sample->v)
        return -1;
    for (size_t i = 0; i < n; i++)
        sample->v[i] = (struct cpu_worker){ number_of(workers, i),
                                            gpu_processes_cpu(processes, i) };
    sample->at_ns = clock_now(&clock_system);
    return 0;
}

void cpu_sample_release(struct cpu_sample *sample)
{
    free(sample->v);
    *sample = (struct cpu_sample){ 0 };
}

static json_t *percent(uint64_t used_ns, uint64_t in_ns)
{
    return json_integer((json_int_t)((used_ns * 100 + in_ns / 2) / in_ns));
}

/* Since the last sample, or since the process has started. */
static json_t *use_of(const struct cpu_sample *last, const struct cpu_sample *now, size_t i,
                      long pid)
{
    const struct cpu_worker *was = find(last, now->v[i].worker);
    const uint64_t used = now->v[i].ns, since = now->at_ns - last->at_ns;
    uint64_t age;

    if (was && used < was->ns) /* a process has ended whose parent is none of ours */
        return json_null();
    if (was && since >= MOMENT_NS)
        return percent(used - was->ns, since);
    return process_age(pid, &age) && age >= MOMENT_NS ? percent(used, age) : json_null();
}

static bool has_all(const struct cpu_sample *last, const struct cpu_sample *now)
{
    for (size_t i = 0; i < now->n; i++)
        if (!find(last, now->v[i].worker))
            return false;
    return true;
}

json_t *cpu_use_list(struct cpu_sample *last, const json_t *workers,
                     const struct gpu_processes *processes)
{
    struct cpu_sample now = { 0 };
    json_t *list = json_array();

    if (!list || take_sample(&now, workers, processes) < 0) {
        json_decref(list);
        return NULL;
    }
    for (size_t i = 0; i < now.n; i++)
        json_array_append_new(list,
                              use_of(last, &now, i,
                                     (long)json_integer_value(
                                         json_object_get(json_array_get(workers, i), "pid"))));
    if (now.at_ns - last->at_ns > APART_NS || !has_all(last, &now)) {
        cpu_sample_release(last);
        *last = now;
    } else {
        cpu_sample_release(&now);
    }
    if (json_array_size(list) == json_array_size(workers))
        return list;
    json_decref(list);
    return NULL;
}
