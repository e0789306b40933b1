/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

/* A clock that does not count the time in which the machine is suspended, and one that does. In
 * macOS, CLOCK_MONOTONIC does. */
#ifdef CLOCK_UPTIME_RAW
#define AWAKE CLOCK_UPTIME_RAW
#define WHOLE CLOCK_MONOTONIC_RAW
#else
#define AWAKE CLOCK_MONOTONIC
#ifdef CLOCK_BOOTTIME
#define WHOLE CLOCK_BOOTTIME
#else
#define WHOLE CLOCK_MONOTONIC
#endif
#endif

static uint64_t read_ns(clockid_t id)
{
    struct timespec t = { 0, 0 };

    (void)clock_gettime(id, &t); /* can't fail: the system has each of them */
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t monotonic_ns(void *arg)
{
    (void)arg;
    return read_ns(AWAKE);
}

static uint64_t wall_ns(void *arg)
{
    (void)arg;
    return read_ns(CLOCK_REALTIME);
}

static uint64_t slept_ns(void *arg)
{
    const uint64_t awake = read_ns(AWAKE), whole = read_ns(WHOLE);

    (void)arg;
    return whole > awake ? whole - awake : 0;
}

const struct clock clock_system = { monotonic_ns, wall_ns, NULL, slept_ns };

void clock_iso8601(char out[static 32])
{
    struct timespec t = { 0, 0 };
    struct tm tm = { 0 };
    size_t n;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    (void)gmtime_r(&t.tv_sec, &tm);
    n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out + n, 32 - n, ".%06ldZ", t.tv_nsec / 1000 % 1000000);
}
