/* measure.h - the timing loop of a check: warm-up, as many iterations as fit, verification,
 * whatever the transport. */
#ifndef WORKER_COLLECTIVE_MEASURE_H
#define WORKER_COLLECTIVE_MEASURE_H

#include "worker/collective/transport.h"

#define MEASURE_SIZES_MAX 64u

/* Measures the operations `ops` (a bit for each coll_op) over each size, rounded up to whole
 * float32, within about budget_s in all: sizes for which there is no time any more are left out,
 * alike on all ranks. `rows` has room for 3 * n; *n_rows of them are filled, also when it fails.
 * -1: *err says in which operation and why. */
MUST_USE int measure(struct transport *t, unsigned ops, const uint64_t *sizes, unsigned n,
                     double budget_s, const struct limit *l, struct figure *rows, unsigned *n_rows,
                     struct err *err);

#endif
