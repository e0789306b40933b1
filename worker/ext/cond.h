/* SPDX-License-Identifier: BSD-3-Clause */
/* cond.h - conditions that threads wait for with a time limit, by a clock that nobody sets. (macOS
 * has no such conditions: there they follow the time of day.) */
#ifndef WORKER_EXT_COND_H
#define WORKER_EXT_COND_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

/* As pthread_cond_init(). */
static inline int cond_init(pthread_cond_t *cond)
{
#ifdef __linux__
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc != 0)
        return rc;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
#else
    return pthread_cond_init(cond, NULL);
#endif
}

/* For pthread_cond_timedwait() with such a condition: ns from now. */
static inline struct timespec cond_time(uint64_t ns)
{
    struct timespec until;

#ifdef __linux__
    clock_gettime(CLOCK_MONOTONIC, &until);
#else
    clock_gettime(CLOCK_REALTIME, &until);
#endif
    ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(ns / NS_PER_S);
    until.tv_nsec = (long)(ns % NS_PER_S);
    return until;
}

#endif
