/* measure.h - the timing loop of a check, for any transport: warm-up, as many iterations as fit
 * into the time, verification. */
#ifndef WORKER_COLLECTIVE_MEASURE_H
#define WORKER_COLLECTIVE_MEASURE_H

#include "worker/collective/transport.h"

#define MEASURE_SIZES_MAX 64u

/* Measures the operations `ops` (a bit for each coll_op) for each size, rounded up to whole
 * float32, within about budget_s seconds in total. When no time is left it omits the other sizes,
 * the same on all ranks. `rows` has room for 3 * n; *n_rows of them are filled, also on failure.
 * -1: *err says in which operation and why. */
MUST_USE int measure(struct transport *t, unsigned ops, const uint64_t *sizes, unsigned n,
                     double budget_s, const struct limit *l, struct figure *rows, unsigned *n_rows,
                     struct err *err);

#endif
