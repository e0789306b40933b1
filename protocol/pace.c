/* pace.c - see pace.h. */
#include "protocol/pace.h"

#include "protocol/span.h"

#define LEAST ((uint64_t)SPAN_CHUNK_MAX)
#define FIRST (2 * LEAST) /* one chunk is written while the other is on the network */

void pace_begin(struct pace *p, uint64_t from)
{
    *p = (struct pace){ .sent = from, .taken = from, .window = FIRST };
}

bool pace_is_due(const struct pace *p)
{
    return p->sent - p->taken < p->window;
}

void pace_sent(struct pace *p, uint64_t bytes, uint64_t now_ns)
{
    p->sent += bytes;
    if (p->timed)
        return;
    p->timed = p->sent;
    p->timed_ns = now_ns;
}

static void adjust(struct pace *p, uint64_t took_ns)
{
    if (took_ns < PACE_QUICK_NS && p->window < SPAN_CHUNK_WINDOW)
        p->window *= 2;
    else if (took_ns > PACE_SLOW_NS && p->window > LEAST)
        p->window /= 2;
}

void pace_taken(struct pace *p, uint64_t bytes, uint64_t now_ns)
{
    p->taken = bytes > p->taken ? bytes : p->taken;
    p->sent = p->sent > p->taken ? p->sent : p->taken;
    if (!p->timed || p->taken < p->timed)
        return;
    adjust(p, now_ns - p->timed_ns);
    p->timed = 0;
}
