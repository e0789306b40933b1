/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/collective/figures.h"

#define PERIOD         251u /* a prime, so that data shifted by a power of two is detected */
#define RANK_STEP      8u
#define ITERATIONS     20u
#define ITERATIONS_MAX 400u
#define QUICK_NS       UINT64_C(20000000) /* repeat short operations for at least this time */

const char *coll_name(enum coll_op op)
{
    static const char *const names[COLL_OPS] = { "all_reduce", "broadcast", "send_recv" };

    return (unsigned)op < COLL_OPS ? names[op] : "?";
}

/* GB/s; 0 if us is 0 */
static double algorithm_bandwidth(uint64_t bytes, double us)
{
    return us > 0 ? (double)bytes / us / 1e3 : 0;
}

/* The factor between algorithm and bus bandwidth: 2(n-1)/n for all_reduce, else 1. */
static double bus_factor(enum coll_op op, unsigned ranks)
{
    if (op != COLL_ALL_REDUCE)
        return 1;
    return ranks ? 2.0 * (double)(ranks - 1) / (double)ranks : 0;
}

void figure_fill(struct figure *f, enum coll_op op, unsigned ranks, uint64_t bytes,
                 unsigned iterations, double total_us)
{
    f->op = op;
    f->bytes = bytes;
    f->iterations = iterations;
    f->us = iterations ? total_us / iterations : 0;
    f->algbw = algorithm_bandwidth(bytes, f->us);
    f->busbw = f->algbw * bus_factor(op, ranks);
    f->bad = 0;
}

unsigned figure_iterations(uint64_t one_ns, uint64_t budget_ns)
{
    const uint64_t fit = one_ns ? budget_ns / one_ns : ITERATIONS_MAX;
    const uint64_t quick = one_ns ? QUICK_NS / one_ns : ITERATIONS_MAX;
    const uint64_t most = quick < ITERATIONS       ? ITERATIONS
                          : quick > ITERATIONS_MAX ? ITERATIONS_MAX
                                                   : quick;

    return fit < 1 ? 1 : fit > most ? (unsigned)most : (unsigned)fit;
}

float pattern_input(unsigned rank, size_t i)
{
    return (float)(i % PERIOD + rank % RANK_STEP);
}

/* The sum of rank % RANK_STEP over the ranks below n. */
static uint64_t step_sum(unsigned n)
{
    const uint64_t whole = n / RANK_STEP, rest = n % RANK_STEP;

    return whole * (RANK_STEP * (RANK_STEP - 1) / 2) + rest * (rest ? rest - 1 : 0) / 2;
}

float pattern_sum(unsigned ranks, size_t i)
{
    return (float)((uint64_t)(i % PERIOD) * ranks + step_sum(ranks));
}

void pattern_fill(float *out, size_t n, unsigned rank)
{
    for (size_t i = 0; i < n; i++)
        out[i] = pattern_input(rank, i);
}

uint64_t pattern_bad(const float *got, size_t n, size_t first, enum coll_op op, unsigned rank,
                     unsigned ranks)
{
    uint64_t bad = 0;

    for (size_t i = 0; i < n; i++) {
        float want;

        if (op == COLL_ALL_REDUCE)
            want = pattern_sum(ranks, first + i);
        else
            want = pattern_input(op == COLL_BROADCAST ? 0 : (rank + ranks - 1) % ranks, first + i);
        bad += !(got[i] >= want && got[i] <= want); /* so that NaN counts as bad */
    }
    return bad;
}
