/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/beat.h, with a clock that the test sets. */
#include "base/beat.h"

#include "base/clock.h"
#include "tests/unit/tap.h"

static struct beat beat_of(uint64_t timeout_ns)
{
    struct beat b;

    beat_init(&b, timeout_ns, 0);
    return b;
}

/* Looks whenever the beat wants it, from `now` on; the node hears each beat and, until `until`,
 * answers at once. */
struct course {
    uint64_t now, silent_ns;
    unsigned beats;
};

static struct course follow(struct beat *b, struct peer_times *p, uint64_t now, uint64_t until,
                            uint64_t end)
{
    struct course c = { now, 0, 0 };

    while (c.now < end && !c.silent_ns) {
        c.now += beat_wait(b);
        if (beat_check(b, c.now) >= BEAT_SUSPENDED_NS)
            peer_times_start(p, c.now);
        if (peer_times_silent(b, p, c.now))
            c.silent_ns = c.now;
        if (peer_times_beat_due(b, p, c.now)) {
            c.beats++;
            p->sent = c.now;
            if (c.now < until)
                p->heard = c.now;
        }
    }
    return c;
}

static void silence_is_noticed(void)
{
    static const uint64_t timeouts[] = { NS_PER_S / 2, 2 * NS_PER_S, 10 * NS_PER_S, 60 * NS_PER_S };

    for (size_t k = 0; k < sizeof timeouts / sizeof *timeouts; k++) {
        struct beat b = beat_of(timeouts[k]);
        const uint64_t silent = 100 * NS_PER_S, t = b.timeout_ns;
        struct peer_times p;
        struct course c;

        beat_start(&b, 0);
        peer_times_start(&p, 0);
        c = follow(&b, &p, 0, silent, silent + 3 * t);
        ok(c.silent_ns >= silent && c.silent_ns <= silent + t + NS_PER_S,
           "%g s: noticed within the timeout and a second (%.2f s)", (double)t / (double)NS_PER_S,
           (double)(c.silent_ns - silent) / (double)NS_PER_S);
        ok(c.beats >= (unsigned)(silent / (t / 5)), "%g s: a beat at least each fifth of it (%u)",
           (double)t / (double)NS_PER_S, c.beats);
    }
}

static void what_goes_both_ways_saves_beats(void)
{
    struct beat b = beat_of(10 * NS_PER_S);
    struct peer_times p = { .heard = 100 * NS_PER_S, .sent = 100 * NS_PER_S };

    ok(!peer_times_beat_due(&b, &p, 101 * NS_PER_S), "no beat where both sides have just spoken");
    p.heard = 90 * NS_PER_S;
    ok(peer_times_beat_due(&b, &p, 101 * NS_PER_S), "what we send without an answer saves none");
    p = (struct peer_times){ .heard = 101 * NS_PER_S, .sent = 90 * NS_PER_S };
    ok(peer_times_beat_due(&b, &p, 101 * NS_PER_S), "nor does what only comes in");
}

static void who_was_suspended_blames_nobody(void)
{
    struct beat b = beat_of(10 * NS_PER_S);
    const uint64_t hour = 3600 * NS_PER_S;
    struct peer_times p;
    struct course c;

    beat_start(&b, 0);
    peer_times_start(&p, 0);
    c = follow(&b, &p, 0, UINT64_MAX, 20 * NS_PER_S);
    ok(!c.silent_ns, "all is well");
    c = follow(&b, &p, c.now + hour, UINT64_MAX, c.now + hour + 30 * NS_PER_S);
    ok(!c.silent_ns, "an hour's sleep: nobody is blamed");
    c = follow(&b, &p, c.now + hour, 0, c.now + hour + 30 * NS_PER_S);
    ok(c.silent_ns && c.silent_ns - c.now < NS_PER_S,
       "who does not come back after the next one is");
    beat_start(&b, 0);
    ok(beat_check(&b, beat_wait(&b) + 300 * NS_PER_MS) == 300 * NS_PER_MS,
       "a busy moment is no sleep");
    ok(beat_check(&b, b.due_ns + 5 * NS_PER_S) >= BEAT_SUSPENDED_NS, "five seconds are");
    is_int((long long)beat_check(&b, b.due_ns - 1), 0, "who is in time is not late");
}

/* Looks that come half a second late, one after the other: so much of each wait is nobody's
 * silence. */
static void who_is_too_busy_blames_nobody(void)
{
    const uint64_t late = 500 * NS_PER_MS;
    struct beat b = beat_of(10 * NS_PER_S);
    struct peer_times p;
    uint64_t now = 0, silent = 0;

    beat_start(&b, 0);
    peer_times_start(&p, 0);
    while (!silent && now < 100 * NS_PER_S) {
        now = b.due_ns + late;
        peer_times_allow_late(&p, beat_check(&b, now), now);
        silent = peer_times_silent(&b, &p, now) ? now : 0;
    }
    ok(silent >= 25 * NS_PER_S && silent < 35 * NS_PER_S,
       "a machine that is late counts the time in which it listened: %.1f s",
       (double)silent / (double)NS_PER_S);
    peer_times_start(&p, now);
    peer_times_allow_late(&p, NS_PER_S, now);
    ok(p.heard == now, "and nobody is heard in the future");
}

static void clocks_may_disagree(void)
{
    struct beat b = beat_of(10 * NS_PER_S);
    const struct peer_times later = { .heard = 50 * NS_PER_S, .sent = 50 * NS_PER_S };

    ok(!peer_times_silent(&b, &later, 49 * NS_PER_S),
       "what was heard after the look began is not ages ago");
}

static void agent_start(struct beat *b, struct peer_times *p, uint64_t timeout_ns)
{
    beat_init(b, timeout_ns, 0);
    peer_times_start(p, 0);
}

static void an_agent_counts_its_kernels_silence(void)
{
    struct beat b;
    struct peer_times p;

    agent_start(&b, &p, 10 * NS_PER_S);
    ok(!beat_is_over(&b, &p, NS_PER_S / 2), "half a second is no silence");
    peer_times_heard(&p, NS_PER_S);
    for (uint64_t now = NS_PER_S; now < 11 * NS_PER_S - 1; now += NS_PER_S / 2)
        if (beat_is_over(&b, &p, now))
            ok(false, "it is over at %llu", (unsigned long long)now);
    ok(!beat_is_over(&b, &p, 11 * NS_PER_S - 1), "nor is a little less than the limit");
    ok(beat_is_over(&b, &p, 11 * NS_PER_S), "the limit is");
}

static void an_agent_that_was_suspended_counts_anew(void)
{
    const uint64_t hour = 3600 * NS_PER_S;
    struct beat b;
    struct peer_times p;

    agent_start(&b, &p, 10 * NS_PER_S);
    ok(!beat_is_over(&b, &p, hour), "an hour asleep is not the kernel's silence");
    for (uint64_t t = NS_PER_S / 2; t < 10 * NS_PER_S; t += NS_PER_S / 2)
        if (beat_is_over(&b, &p, hour + t))
            ok(false, "it is over %llu after the sleep", (unsigned long long)t);
    ok(beat_is_over(&b, &p, hour + 10 * NS_PER_S), "the time from then on is");
    agent_start(&b, &p, 10 * NS_PER_S);
    ok(!beat_is_over(&b, &p, hour) && beat_is_over(&b, &p, 2 * hour),
       "the second time, an hour counts as silence");
    agent_start(&b, &p, 10 * NS_PER_S);
    ok(!beat_is_over(&b, &p, hour), "it does not count");
    peer_times_heard(&p, hour + 1);
    ok(!beat_is_over(&b, &p, 2 * hour), "nor does it after something was heard");
    agent_start(&b, &p, NS_PER_S / 2);
    ok(beat_wait(&b) < NS_PER_S / 9, "a short limit is looked at often");
}

static uint64_t slept_of(void *arg)
{
    return *(const uint64_t *)arg;
}

static void a_sleep_is_counted_once(void)
{
    uint64_t slept = 50 * NS_PER_S, counted;
    struct clock c = { .arg = &slept };
    struct peer_times p;

    is_int((long long)clock_slept(&c), 0, "a clock that knows of no sleep has none");
    c.slept_ns = slept_of;
    counted = clock_slept(&c);
    slept += NS_PER_S / 2;
    is_int((long long)clock_slept_since(&c, &counted), 0, "half a second may be the two readings'");
    slept += 9 * NS_PER_S / 2;
    is_int((long long)clock_slept_since(&c, &counted), (long long)(5 * NS_PER_S),
           "five are a sleep");
    is_int((long long)clock_slept_since(&c, &counted), 0, "which is counted once");
    slept -= NS_PER_S;
    is_int((long long)clock_slept_since(&c, &counted), 0, "and none is less than nothing");
    peer_times_start(&p, NS_PER_S);
    peer_times_slept(&p, 3600 * NS_PER_S);
    ok(peer_times_silence_ns(&p, 2 * NS_PER_S) == 3601 * NS_PER_S, "a sleep can be silence");
    peer_times_heard(&p, 2 * NS_PER_S);
    ok(peer_times_silence_ns(&p, 3 * NS_PER_S) == NS_PER_S, "until something is heard");
    ok(clock_slept(&clock_system) < clock_now(&clock_system) + clock_slept(&clock_system),
       "the system's clock has run since it was started");
}

int main(void)
{
    a_sleep_is_counted_once();
    silence_is_noticed();
    what_goes_both_ways_saves_beats();
    who_was_suspended_blames_nobody();
    who_is_too_busy_blames_nobody();
    clocks_may_disagree();
    an_agent_counts_its_kernels_silence();
    an_agent_that_was_suspended_counts_anew();
    return plan_done();
}
