/* SPDX-License-Identifier: BSD-3-Clause */
/* thread_calls.h - calls that threads of home make at the same time, on different ranks. */
#ifndef TESTS_UNIT_KERNEL_THREAD_CALLS_H
#define TESTS_UNIT_KERNEL_THREAD_CALLS_H

#include "tests/unit/kernel/double.h"

/* Home calls a function. line: the option line; looked: what home has found that it reads. */
void call(struct world *w, uint64_t number, const char *line, const char *looked);
void call_on(struct world *w, uint64_t number, const char *ranks); /* that reads nothing */
struct cell *running(const struct world *w, uint64_t call);        /* NULL: it does not run */
unsigned cells(const struct world *w);                             /* how many run */
/* The DONE of a rank that runs the call; flags: DONE_... */
void ends_with(struct world *w, uint64_t call, uint32_t worker, uint64_t flags);
void ends(struct world *w, uint64_t call, uint32_t worker);

/* Four idle ranks, workers 2 to 5, on two machines. Home runs a cell. */
void open_four(struct world *w, struct clock *clock);
/* The same; call 7 runs on rank 0, call 8 on ranks 2 and 3. */
void open_with_two(struct world *w, struct clock *clock);
void open_in_background(struct world *w, struct clock *clock); /* the same, but home runs nothing */
void end_at_home(struct world *w);                             /* home's cell ends well */

#endif
