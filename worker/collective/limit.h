/* limit.h - until when something may take, and who may call it off: every wait of this room ends by
 * itself. */
#ifndef WORKER_COLLECTIVE_LIMIT_H
#define WORKER_COLLECTIVE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

#define LIMIT_SLICE_MS 50 /* the longest sleep between two looks at `stopped` */

struct limit {
    uint64_t until_ns;          /* of clock_system */
    double seconds;             /* what it was set to, for words */
    bool (*stopped)(void *arg); /* asked between sleeps; NULL: nobody calls it off */
    void *arg;
};

struct limit limit_in(double seconds, bool (*stopped)(void *arg), void *arg);

/* -1 when the time is over or it was called off; `what` was waited for, as "rank 3". */
MUST_USE int limit_check(const struct limit *l, const char *what, struct err *err);
/* Milliseconds that a poll() may sleep now, from 0 to LIMIT_SLICE_MS. */
int limit_sleep_ms(const struct limit *l);

#endif
