/* SPDX-License-Identifier: BSD-3-Clause */
/* deadline.h - a time limit that can also be cancelled. Every wait in this folder has one. */
#ifndef WORKER_COLLECTIVE_DEADLINE_H
#define WORKER_COLLECTIVE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

#define DEADLINE_SLICE_MS 50 /* the longest sleep between two calls of `stopped` */

struct deadline {
    uint64_t until_ns;          /* on clock_system */
    double seconds;             /* the limit that was set, for error texts */
    bool (*stopped)(void *arg); /* cancelled? Called between sleeps; NULL: never cancelled */
    void *arg;
};

struct deadline deadline_in(double seconds, bool (*stopped)(void *arg), void *arg);

/* -1 if the time is over or it was cancelled. what: what the caller waits for, such as "rank 3". */
MUST_USE int deadline_check(const struct deadline *l, const char *what, struct err *err);
/* Milliseconds that a poll() may sleep now, from 0 to DEADLINE_SLICE_MS. */
int deadline_sleep_ms(const struct deadline *l);

#endif
