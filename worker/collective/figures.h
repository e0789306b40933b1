/* SPDX-License-Identifier: BSD-3-Clause */
/* figures.h - the operations that a check measures, their test patterns, and their bandwidths,
 * computed as in nccl-tests, so that the figures can be compared. Pure. */
#ifndef WORKER_COLLECTIVE_FIGURES_H
#define WORKER_COLLECTIVE_FIGURES_H

#include <stddef.h>
#include <stdint.h>

enum coll_op {
    COLL_ALL_REDUCE, /* sum of float32 */
    COLL_BROADCAST,  /* from rank 0 */
    COLL_SEND_RECV,  /* each rank sends to the next one, the last one to the first, all at once */
};
#define COLL_OPS 3u

/* One line of the table. */
struct figure {
    enum coll_op op;
    uint64_t bytes;
    unsigned iterations;
    double us;    /* microseconds of one iteration, seen from this rank */
    double algbw; /* algorithm bandwidth: bytes / time, in GB/s (1e9 bytes) */
    double
        busbw; /* bus bandwidth of the busiest link in GB/s, independent of the number of ranks */
    uint64_t bad; /* number of wrong elements */
};

const char *coll_name(enum coll_op op); /* "all_reduce", … */
void figure_fill(struct figure *f, enum coll_op op, unsigned ranks, uint64_t bytes,
                 unsigned iterations, double total_us);
/* How many iterations fit into budget_ns if one takes one_ns: 1 to 20, or up to 400 if one takes
 * microseconds, so that the cost of the start does not count. */
unsigned figure_iterations(uint64_t one_ns, uint64_t budget_ns);

/* Element i of the input of `rank`: a small integer, so that sums over 65536 ranks are exact in
 * float32. */
float pattern_input(unsigned rank, size_t i);
/* Element i of the sum over ranks 0 … ranks-1. */
float pattern_sum(unsigned ranks, size_t i);
void pattern_fill(float *out, size_t n, unsigned rank);
/* How many of the n elements are wrong as the result of `op` at `rank` of `ranks`. first: the index
 * of the first element. */
uint64_t pattern_bad(const float *got, size_t n, size_t first, enum coll_op op, unsigned rank,
                     unsigned ranks);

#endif
