/* SPDX-License-Identifier: BSD-3-Clause */
/* worker_credit.h - how many bytes of one worker may be on the way to the kernel. Pure.
 *
 * It counts the data of LINES, and content, metadata and buffers of PUBLISH, exactly as the kernel
 * does when it gives credit back: a difference of one byte in each message would stop a worker in
 * the end. A message of any length is sent while some credit is left, so `left` may fall below 0.
 * Then nothing is read from the worker until it is above 0 again. */
#ifndef WORKER_AGENT_OUTPUT_WORKER_CREDIT_H
#define WORKER_AGENT_OUTPUT_WORKER_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

#define WORKER_CREDIT_FIRST INT64_C(1048576) /* the window until WELCOME sets another */

struct worker_credit {
    int64_t window;
    int64_t left;
};

#define WORKER_CREDIT_INIT { WORKER_CREDIT_FIRST, WORKER_CREDIT_FIRST }

static inline void worker_credit_window(struct worker_credit *c, uint64_t window)
{
    const int64_t w = window > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)window;

    c->left += w - c->window; /* bytes on the way still count */
    c->window = w;
}

static inline void worker_credit_take(struct worker_credit *c, uint64_t n)
{
    c->left -= (int64_t)n;
}

/* The result is never more than the window, even if the kernel gives back too much. */
static inline void worker_credit_give(struct worker_credit *c, uint64_t n)
{
    if (n >= (uint64_t)c->window || c->left > c->window - (int64_t)n)
        c->left = c->window;
    else
        c->left += (int64_t)n;
}

/* How many bytes a PUBLISH message counts; -1: it is torn. */
MUST_USE int64_t worker_credit_of_publish(struct slice msg);

static inline bool worker_credit_is_out(const struct worker_credit *c)
{
    return c->left <= 0;
}

#endif
