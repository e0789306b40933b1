/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/net/silence.h"

#include "base/log.h"

#define BEATS 4u /* sent unasked within the timeout; the kernel asks for five */

static uint64_t now_of(const struct silence *s)
{
    return clock_now(loop_clock(s->loop));
}

void silence_init(struct silence *s, struct loop *loop, const struct silence_ops *ops)
{
    *s = (struct silence){ .loop = loop, .ops = *ops, .meter = METER_INIT };
}

void silence_stop(struct silence *s)
{
    watch_clear(&s->timer);
}

/* While a parent is dialed the kernel does not ask for beats, and on a slow connection its question
 * waits behind other bytes. So the agent sends BEAT unasked. */
static void beat_unasked(struct silence *s, uint64_t now)
{
    const bool moving = s->ops.is_moving(s->ops.arg), comes = meter_moved(&s->meter);

    if (moving || comes)
        peer_times_heard(&s->kernel, now);
    if (moving || (comes && now - s->said_ns >= s->timeout_ns / BEATS))
        s->ops.beat(s->ops.arg);
}

static void check(void *arg)
{
    struct silence *s = arg;
    const uint64_t now = now_of(s);

    if (s->ops.is_cut_off(s->ops.arg))
        return;
    beat_unasked(s, now);
    if (beat_is_over(&s->beat, &s->kernel, now))
        s->ops.over(s->ops.arg);
}

void silence_listen(struct silence *s, uint64_t timeout_ns, uint64_t limit_ns)
{
    const uint64_t now = now_of(s);
    struct err err = { "" };

    s->timeout_ns = timeout_ns;
    beat_init(&s->beat, limit_ns, now);
    peer_times_start(&s->kernel, now);
    watch_stop(s->timer);
    if (!(s->timer = loop_timer(s->loop, beat_wait(&s->beat), beat_wait(&s->beat), check, s, &err)))
        log_error("uplink", "%s", err.text);
}

void silence_heard(struct silence *s)
{
    peer_times_heard(&s->kernel, now_of(s));
}

void silence_restart(struct silence *s)
{
    peer_times_start(&s->kernel, now_of(s));
}

void silence_said(struct silence *s)
{
    s->said_ns = now_of(s);
}
