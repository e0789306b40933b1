/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - the only way in which the program reads time, so that tests can set it. Pure code gets
 * a struct clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

struct clock {
    uint64_t (*now_ns)(void *arg);  /* monotonic */
    uint64_t (*wall_ns)(void *arg); /* since 1970, UTC */
    void *arg;
    /* for how long this machine has been suspended, which now_ns does not count; NULL: never */
    uint64_t (*slept_ns)(void *arg);
};

extern const struct clock clock_system;

static inline uint64_t clock_now(const struct clock *c)
{
    return c->now_ns(c->arg);
}

static inline uint64_t clock_slept(const struct clock *c)
{
    return c->slept_ns ? c->slept_ns(c->arg) : 0;
}

/* For how long this machine was suspended since *counted, which is set to clock_slept(). 0 if that
 * is less than a second: it is counted later, as two clocks are read at two moments. */
static inline uint64_t clock_slept_since(const struct clock *c, uint64_t *counted)
{
    const uint64_t slept = clock_slept(c), more = slept > *counted ? slept - *counted : 0;

    if (more < NS_PER_S)
        return 0;
    *counted = slept;
    return more;
}

/* A duration for a reader: whole seconds, and no more than have passed. */
static inline double clock_whole_seconds(uint64_t ns)
{
    return ns < NS_PER_S ? (double)ns / 1e9 : (double)(ns / NS_PER_S);
}

/* The earlier of two times. */
static inline uint64_t clock_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* UTC now as Jupyter's headers write it, "2026-11-21T10:00:00.123456Z", NUL-terminated. */
void clock_iso8601(char out[static 32]);

#endif
