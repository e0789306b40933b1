/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/collective/deadline.h"

struct deadline deadline_in(double seconds, bool (*stopped)(void *arg), void *arg)
{
    const double most = 86400.0;
    struct deadline l;

    if (!(seconds > 0))
        seconds = 0;
    if (seconds > most)
        seconds = most;
    l.seconds = seconds;
    l.until_ns = clock_now(&clock_system) + (uint64_t)(seconds * 1e9);
    l.stopped = stopped;
    l.arg = arg;
    return l;
}

int deadline_check(const struct deadline *l, const char *what, struct err *err)
{
    if (l->stopped && l->stopped(l->arg))
        return err_set(err, "interrupted while it waited for %s", what);
    if (clock_now(&clock_system) >= l->until_ns)
        return err_set(err, "%s did not answer within %.3g s", what, l->seconds);
    return 0;
}

int deadline_sleep_ms(const struct deadline *l)
{
    const uint64_t now = clock_now(&clock_system);
    uint64_t left;

    if (now >= l->until_ns)
        return 0;
    left = (l->until_ns - now + NS_PER_MS - 1) / NS_PER_MS;
    return left > DEADLINE_SLICE_MS ? DEADLINE_SLICE_MS : (int)left;
}
