/* figures.h - what is measured, and how its figures are computed: as nccl-tests does, so that they
 * compare. Pure. */
#ifndef WORKER_COLLECTIVE_FIGURES_H
#define WORKER_COLLECTIVE_FIGURES_H

#include <stddef.h>
#include <stdint.h>

enum coll_op {
    COLL_ALL_REDUCE, /* sum of float32 */
    COLL_BROADCAST,  /* from rank 0 */
    COLL_SEND_RECV,  /* each rank to the next one, the last to the first, at the same time */
};
#define COLL_OPS 3u

/* One line of the table. */
struct figure {
    enum coll_op op;
    uint64_t bytes;
    unsigned iterations;
    double us;    /* of one iteration, seen from this rank */
    double algbw; /* GB/s (1e9 bytes): bytes by time */
    double busbw; /* GB/s that the busiest link carried, whatever the number of ranks */
    uint64_t bad; /* elements that are not what they should be */
};

const char *coll_name(enum coll_op op); /* "all_reduce", … */
/* GB/s. 0 for no time. */
double figure_algbw(uint64_t bytes, double us);
/* The factor between algorithm and bus bandwidth: 2(n-1)/n for all_reduce, else 1. */
double figure_bus_factor(enum coll_op op, unsigned ranks);
void figure_fill(struct figure *f, enum coll_op op, unsigned ranks, uint64_t bytes,
                 unsigned iterations, double total_us);
/* How many iterations fit into budget_ns when one takes one_ns: 1 to 20; up to 400 of those that
 * take microseconds, whose time is to be theirs, not that of starting them. */
unsigned figure_iterations(uint64_t one_ns, uint64_t budget_ns);

/* Element i of what `rank` puts in: small whole numbers, so that sums over 65536 ranks are exact in
 * float32. */
float pattern_input(unsigned rank, size_t i);
/* Element i of the sum over ranks 0 … ranks-1. */
float pattern_sum(unsigned ranks, size_t i);
void pattern_fill(float *out, size_t n, unsigned rank);
/* How many of the n elements are not what `op` should give at `rank` of `ranks`; `first`: the index
 * of the first. */
uint64_t pattern_bad(const float *got, size_t n, size_t first, enum coll_op op, unsigned rank,
                     unsigned ranks);

#endif
