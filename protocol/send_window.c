/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/send_window.h"

#include "protocol/span.h"

#define LEAST ((uint64_t)SPAN_CHUNK_MAX)
#define FIRST (2 * LEAST) /* one chunk is written while the other is on the network */

void send_window_begin(struct send_window *w, uint64_t from)
{
    *w = (struct send_window){ .sent = from, .acked = from, .window = FIRST };
}

bool send_window_is_due(const struct send_window *w)
{
    return w->sent - w->acked < w->window;
}

void send_window_sent(struct send_window *w, uint64_t bytes, uint64_t now_ns)
{
    w->sent += bytes;
    if (w->timed)
        return;
    w->timed = w->sent;
    w->timed_ns = now_ns;
}

static void adjust(struct send_window *w, uint64_t took_ns)
{
    if (took_ns < SEND_WINDOW_QUICK_NS && w->window < SPAN_CHUNK_WINDOW)
        w->window *= 2;
    else if (took_ns > SEND_WINDOW_SLOW_NS && w->window > LEAST)
        w->window /= 2;
}

void send_window_acked(struct send_window *w, uint64_t bytes, uint64_t now_ns)
{
    w->acked = bytes > w->acked ? bytes : w->acked;
    w->sent = w->sent > w->acked ? w->sent : w->acked;
    if (!w->timed || w->acked < w->timed)
        return;
    adjust(w, now_ns - w->timed_ns);
    w->timed = 0;
}
