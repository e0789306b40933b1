/* credit.h - how many bytes of one worker may be on the way to the kernel. Pure.
 *
 * Counted are LINES' data and PUBLISH's content, metadata and buffers, as the kernel counts them
 * when it gives credit back: a difference of one byte a message would stop a worker some day. A
 * message is sent while anything is left, however long it is, so `left` may go below 0; nothing
 * more is read from the worker until it is above 0 again. */
#ifndef WORKER_AGENT_CREDIT_H
#define WORKER_AGENT_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

#define CREDIT_FIRST INT64_C(1048576) /* the window until WELCOME says another */

struct credit {
    int64_t window;
    int64_t left;
};

#define CREDIT_INIT { CREDIT_FIRST, CREDIT_FIRST }

static inline void credit_window(struct credit *c, uint64_t window)
{
    const int64_t w = window > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)window;

    c->left += w - c->window; /* what is on the way stays counted */
    c->window = w;
}

static inline void credit_take(struct credit *c, uint64_t n)
{
    c->left -= (int64_t)n;
}

/* Never more than the window, whatever the peer counts. */
static inline void credit_give(struct credit *c, uint64_t n)
{
    if (n >= (uint64_t)c->window || c->left > c->window - (int64_t)n)
        c->left = c->window;
    else
        c->left += (int64_t)n;
}

/* What a PUBLISH message counts. -1: it is torn. */
MUST_USE int64_t credit_of_publish(struct slice msg);

static inline bool credit_is_out(const struct credit *c)
{
    return c->left <= 0;
}

#endif
