/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/beat.h"

/* the longest wait between two checks, so that a peer's silence is noticed within a second */
#define CHECK_MAX_NS (250 * NS_PER_MS)
/* so many BEATs are due within the timeout: several may get lost before it is over */
#define BEATS 5u

void beat_init(struct beat *b, uint64_t timeout_ns, uint64_t now)
{
    *b = (struct beat){ .timeout_ns = timeout_ns };
    beat_start(b, now);
}

void beat_start(struct beat *b, uint64_t now)
{
    b->due_ns = now + beat_wait(b);
}

uint64_t beat_wait(const struct beat *b)
{
    const uint64_t part = b->timeout_ns / (2 * BEATS);

    return part < CHECK_MAX_NS ? part : CHECK_MAX_NS;
}

uint64_t beat_check(struct beat *b, uint64_t now)
{
    const uint64_t late = now > b->due_ns ? now - b->due_ns : 0;

    beat_start(b, now);
    return late;
}

bool beat_is_over(struct beat *b, struct peer_times *p, uint64_t now)
{
    if (beat_check(b, now) >= BEAT_SUSPENDED_NS && !p->was_suspended) {
        p->heard = now;
        p->was_suspended = true;
    }
    return peer_times_silent(b, p, now);
}

void peer_times_start(struct peer_times *p, uint64_t now)
{
    *p = (struct peer_times){ .heard = now, .sent = now };
}

void peer_times_heard(struct peer_times *p, uint64_t now)
{
    p->heard = now;
    p->slept = 0;
    p->was_suspended = false;
}

void peer_times_slept(struct peer_times *p, uint64_t ns)
{
    p->slept += ns;
}

void peer_times_allow_late(struct peer_times *p, uint64_t late, uint64_t now)
{
    p->heard = p->heard + late < now ? p->heard + late : now;
}

static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* true: a BEAT must be sent now. It is due if either direction was quiet for too long: our own
 * messages do not show that the peer lives. The next check is beat_wait() away, so a BEAT that is
 * due before that is due now. */
bool peer_times_beat_due(const struct beat *b, const struct peer_times *p, uint64_t now)
{
    const uint64_t older = p->heard < p->sent ? p->heard : p->sent;

    return since(older, now) + beat_wait(b) > b->timeout_ns / BEATS;
}

uint64_t peer_times_silence_ns(const struct peer_times *p, uint64_t known)
{
    return since(p->heard, known) + p->slept;
}

bool peer_times_silent(const struct beat *b, const struct peer_times *p, uint64_t known)
{
    return peer_times_silence_ns(p, known) >= b->timeout_ns;
}
