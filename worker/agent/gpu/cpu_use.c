/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_use.c - how much of a processor each worker uses now: the difference of two samples of its
 * processor time (declared in driver.h). */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "worker/agent/gpu/driver.h"

#define OLD_NS    (10 * NS_PER_S)   /* use since an older sample is not what is used now */
#define MOMENT_NS (200 * NS_PER_MS) /* the system counts in steps of 10 ms */
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

/* Can a sample be compared with this one? */
static bool serves(const struct cpu_sample *last, const json_t *workers)
{
    if (!last->at_ns || clock_now(&clock_system) - last->at_ns > OLD_NS ||
        clock_now(&clock_system) - last->at_ns < MOMENT_NS)
        return false;
    for (size_t i = 0; i < json_array_size(workers); i++)
        if (!find(last, number_of(workers, i)))
            return false;
    return true;
}

static json_t *percent(const struct cpu_sample *from, const struct cpu_worker *to, uint64_t took_ns)
{
    const struct cpu_worker *was = find(from, to->worker);

    /* Time goes back where a process has ended whose parent is none of ours. */
    if (!was || !took_ns || to->ns < was->ns)
        return json_null();
    return json_integer((json_int_t)(((to->ns - was->ns) * 100 + took_ns / 2) / took_ns));
}

json_t *cpu_use_list(struct cpu_sample *last, const json_t *workers,
                     const struct gpu_processes *processes)
{
    const struct timespec moment = { 0, (long)MOMENT_NS };
    struct cpu_sample now = { 0 };
    json_t *list = json_array();

    if (!serves(last, workers)) {
        cpu_sample_release(last);
        if (take_sample(last, workers, processes) == 0)
            nanosleep(&moment, NULL);
    }
    if (!list || !last->v || take_sample(&now, workers, processes) < 0) {
        json_decref(list);
        return NULL;
    }
    for (size_t i = 0; i < now.n; i++)
        json_array_append_new(list, percent(last, &now.v[i], now.at_ns - last->at_ns));
    if (now.at_ns - last->at_ns > APART_NS) {
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
