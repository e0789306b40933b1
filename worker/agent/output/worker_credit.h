/* worker_credit.h - how many bytes of one worker may be on the way to the kernel. Pure.
 *
 * Counted are LINES' data and PUBLISH's content, metadata and buffers, as the kernel counts them
 * when it gives credit back: a difference of one byte a message would stop a worker some day. A
 * message is sent while anything is left, however long it is, so `left` may go below 0; nothing
 * more is read from the worker until it is above 0 again. */
#ifndef WORKER_AGENT_OUTPUT_WORKER_CREDIT_H
#define WORKER_AGENT_OUTPUT_WORKER_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

#define WORKER_CREDIT_FIRST INT64_C(1048576) /* the window until WELCOME says another */

struct worker_credit {
    int64_t window;
    int64_t left;
};

#define WORKER_CREDIT_INIT { WORKER_CREDIT_FIRST, WORKER_CREDIT_FIRST }

static inline void worker_credit_window(struct worker_credit *c, uint64_t window)
{
    const int64_t w = window > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)window;

    c->left += w - c->window; /* what is on the way stays counted */
    c->window = w;
}

static inline void worker_credit_take(struct worker_credit *c, uint64_t n)
{
    c->left -= (int64_t)n;
}

/* Never more than the window, whatever the peer counts. */
static inline void worker_credit_give(struct worker_credit *c, uint64_t n)
{
    if (n >= (uint64_t)c->window || c->left > c->window - (int64_t)n)
        c->left = c->window;
    else
        c->left += (int64_t)n;
}

/* What a PUBLISH message counts. -1: it is torn. */
MUST_USE int64_t worker_credit_of_publish(struct slice msg);

static inline bool worker_credit_is_out(const struct worker_credit *c)
{
    return c->left <= 0;
}

#endif
