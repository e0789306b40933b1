/* SPDX-License-Identifier: BSD-3-Clause */
/* limit.h - a time limit that can also be cancelled. Every wait in this folder has one. */
#ifndef WORKER_COLLECTIVE_LIMIT_H
#define WORKER_COLLECTIVE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

#define LIMIT_SLICE_MS 50 /* the longest sleep between two calls of `stopped` */

struct limit {
    uint64_t until_ns;          /* on clock_system */
    double seconds;             /* the limit that was set, for error texts */
    bool (*stopped)(void *arg); /* cancelled? Called between sleeps; NULL: never cancelled */
    void *arg;
};

struct limit limit_in(double seconds, bool (*stopped)(void *arg), void *arg);

/* -1 if the time is over or it was cancelled. what: what the caller waits for, such as "rank 3". */
MUST_USE int limit_check(const struct limit *l, const char *what, struct err *err);
/* Milliseconds that a poll() may sleep now, from 0 to LIMIT_SLICE_MS. */
int limit_sleep_ms(const struct limit *l);

#endif
