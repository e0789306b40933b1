#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t monotonic_ns(void *arg)
{
    struct timespec t = { 0, 0 };

    (void)arg;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* can't fail: POSIX has it wherever we build */
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

const struct clock clock_system = { monotonic_ns, NULL };

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

void clock_local(char out[static 32])
{
    const time_t now = time(NULL);
    struct tm tm;

    if (!localtime_r(&now, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        out[0] = '\0';
}
