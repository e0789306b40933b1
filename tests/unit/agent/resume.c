/* SPDX-License-Identifier: BSD-3-Clause */
/* Agents whose connection to the kernel ends: they resume, and keep their ranks. With real
 * processes. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "protocol/span_fields.h"
#include "tests/unit/agent/fake.h"
#include "tests/unit/agent/lan.h"
#include "tests/unit/agent/must.h"
#include "tests/unit/tap.h"
#include "worker/agent/net/redial.h"

static const char *self;

/* An agent with a rank; gives that one's pid. */
static uint64_t one_rank_for(struct lan *l, uint64_t timeout_ms)
{
    lan_open(l);
    l->timeout_ms = timeout_ms;
    lan_join(l, 1, LAN_STDIN);
    lan_start_rank(l, self, 2);
    ok(lan_until(l, SPAN_READY, 1), "a rank is up");
    return l->last.v[F_READY_PID].u64;
}

static uint64_t one_rank(struct lan *l)
{
    return one_rank_for(l, 60000);
}

/* The next RESUME, and the key in it. */
static bool resumes(struct lan *l, unsigned char next[KEY_SIZE])
{
    if (!lan_until(l, SPAN_RESUME, 1) || l->last.v[F_RESUME_NEXT].s.n != KEY_SIZE)
        return false;
    memcpy(next, l->last.v[F_RESUME_NEXT].s.p, KEY_SIZE);
    return true;
}

static bool beats_back(struct lan *l, uint64_t sent)
{
    const struct span beat = { .kind = SPAN_BEAT, .v[F_BEAT_SENT].u64 = sent };

    lan_tell(l, 1, 1, &beat);
    while (lan_until(l, SPAN_BEAT, 1))
        if (l->last.v[F_BEAT_SENT].u64 == sent)
            return true;
    return false;
}

static void a_rank_outlives_its_connection(void)
{
    unsigned char next[KEY_SIZE], then[KEY_SIZE];
    uint64_t pid;
    struct lan l;

    pid = one_rank(&l);
    lan_reset(&l, 1);
    ok(resumes(&l, next) && l.last.v[F_RESUME_RECEIVED].u64 == 1 &&
           l.last.v[F_RESUME_VERSION].u64 == SPAN_VERSION,
       "the agent resumes, and says what it has received");
    lan_start_rank(&l, self, 3);
    ok(lan_until(&l, SPAN_READY, 1) && l.last.worker == 3, "what follows reaches it");
    l.member[1].received--; /* as if that had been on its way */
    lan_reset(&l, 1);
    ok(resumes(&l, then) && memcmp(next, then, KEY_SIZE) != 0, "each time it names another key");
    is_int(l.last.v[F_RESUME_RECEIVED].u64, 2, "and has received more");
    ok(lan_until(&l, SPAN_READY, 1) && l.last.worker == 3, "what was lost comes again");
    ok(beats_back(&l, 7) && l.last.v[F_BEAT_RECEIVED].u64 == 2, "BEAT acknowledges");
    ok(kill((pid_t)pid, 0) == 0, "the rank is the same");
    is_int(lan_end(&l, 1), 0, "it ends as always");
    lan_close(&l);
}

static void an_answer_is_lost(void)
{
    unsigned char next[KEY_SIZE], then[KEY_SIZE];
    struct lan l;

    (void)one_rank(&l);
    l.mute = true;
    lan_reset(&l, 1);
    ok(resumes(&l, next), "it resumes");
    ok(resumes(&l, then) && memcmp(next, then, KEY_SIZE) != 0,
       "without an answer once more, with the key that it has just named");
    l.mute = false;
    lan_reset(&l, 1);
    ok(resumes(&l, next) && beats_back(&l, 9), "a connection that ends before the answer, too");
    is_int(lan_end(&l, 1), 0, "it ends as always");
    lan_close(&l);
}

static void the_kernel_has_given_it_up(void)
{
    struct span m = { .kind = SPAN_REFUSE, .v[F_REFUSE_TEXT].s = slice_text("it is gone") };
    unsigned char next[KEY_SIZE];
    struct lan l;

    (void)one_rank(&l);
    l.mute = true;
    lan_reset(&l, 1);
    ok(resumes(&l, next), "it resumes");
    lan_tell(&l, 1, 1, &m);
    is_int(lan_wait(&l, 1), 1, "REFUSE ends it");
    ok(lan_wrote(&l, 1, "it is gone"), "with what the kernel says");
    lan_close(&l);
    (void)one_rank(&l);
    l.mute = true;
    lan_reset(&l, 1);
    m = (struct span){ .kind = SPAN_RESUME, .v[F_RESUME_RECEIVED].u64 = 99 };
    ok(resumes(&l, next), "it resumes");
    lan_tell(&l, 1, 1, &m);
    is_int(lan_wait(&l, 1), 1, "so does a kernel that has received what was never sent");
    lan_close(&l);
}

/* The connection ends before WELCOME: ZeroMQ would come back without HELLO. */
static void a_connection_ends_before_welcome(void)
{
    unsigned char next[KEY_SIZE];
    struct lan l;

    lan_open(&l);
    l.timeout_ms = 60000;
    l.mute = true;
    lan_join(&l, 1, LAN_STDIN);
    memcpy(next, l.last.v[F_HELLO_NEXT].s.p, KEY_SIZE);
    lan_reset(&l, 1);
    ok(lan_until(&l, SPAN_HELLO, 0) && l.last.v[F_HELLO_NEXT].s.n == KEY_SIZE &&
           memcmp(next, l.last.v[F_HELLO_NEXT].s.p, KEY_SIZE) != 0,
       "HELLO is said again, with the key that it has named, and names another");
    l.mute = false;
    ok(lan_until(&l, SPAN_HELLO, 0), "and again, if no answer comes");
    lan_start_rank(&l, self, 2);
    ok(lan_until(&l, SPAN_READY, 1), "then the agent is as any other");
    lan_reset(&l, 1);
    ok(resumes(&l, next) && l.last.v[F_RESUME_RECEIVED].u64 == 1, "and resumes as one");
    is_int(lan_end(&l, 1), 0, "it ends as always");
    lan_close(&l);
}

/* The first connection leads nowhere, and nobody ends it. */
static void hello_is_not_answered(void)
{
    unsigned char next[KEY_SIZE];
    struct lan l;

    setenv("CELLSPAN_DIAL_TIMEOUT", "45", 1);
    lan_open(&l);
    l.timeout_ms = 60000;
    l.mute = true;
    lan_join(&l, 1, LAN_STDIN);
    memcpy(next, l.last.v[F_HELLO_NEXT].s.p, KEY_SIZE);
    l.mute = false;
    ok(lan_until(&l, SPAN_HELLO, 0) && memcmp(next, l.last.v[F_HELLO_NEXT].s.p, KEY_SIZE) != 0,
       "HELLO is said anew, on another connection");
    lan_start_rank(&l, self, 2);
    ok(lan_until(&l, SPAN_READY, 1), "and the agent is as any other");
    is_int(lan_end(&l, 1), 0, "it ends as always");
    lan_close(&l);
    unsetenv("CELLSPAN_DIAL_TIMEOUT");
}

/* Each time the kernel admits the key, so it waits for this agent still. */
static void answers_are_lost_for_longer_than_the_timeout(void)
{
    unsigned char next[KEY_SIZE];
    bool again = true;
    struct lan l;

    (void)one_rank_for(&l, 6000);
    l.mute = true;
    lan_reset(&l, 1);
    for (int i = 0; i < 4 && again; i++) /* 3 s from one to the next */
        again = resumes(&l, next);
    ok(again, "an agent that is let in does not give up");
    l.mute = false;
    ok(again && resumes(&l, next) && beats_back(&l, 5), "until it is answered");
    is_int(lan_end(&l, 1), 0, "it ends as always");
    lan_close(&l);
}

/* So that a kernel to which a thousand agents come back at once finishes what it has begun. */
static void attempts_that_take_too_long_get_longer(void)
{
    static const unsigned patient[] = { 3, 6, 12, 12 }, short_of_time[] = { 3, 5, 5, 5 };
    struct redial r = { 0 }, s = { 0 };
    bool good = true;

    redial_begin(&r, NS_PER_S, 120 * NS_PER_S, true);
    redial_begin(&s, NS_PER_S, 10 * NS_PER_S, true);
    for (unsigned k = 0; k < 4; k++) {
        (void)redial_attempt(&r, NS_PER_S, 0);
        (void)redial_attempt(&s, NS_PER_S, 0);
        good = good && r.limit_ns == (1 + patient[k]) * NS_PER_S &&
               s.limit_ns == (1 + short_of_time[k]) * NS_PER_S;
        redial_was_slow(&r);
        redial_was_slow(&s);
    }
    ok(good, "an attempt after one that took too long gets twice the time, up to a limit");
    redial_resumed(&r);
    is_int((long)redial_limit_ns(&r), (long)REDIAL_LIMIT_NS, "the next time it begins anew");
}

/* An attempt whose sockets all fail, as when no host answers, is followed by another one at once.
 */
static void sockets_dial_beside_each_other(void)
{
    struct redial r = { 0 };

    redial_begin(&r, NS_PER_S, 120 * NS_PER_S, true);
    (void)redial_attempt(&r, NS_PER_S, 0);
    ok(!redial_beside(&r, NS_PER_S + 149 * NS_PER_MS, 0) &&
           redial_beside(&r, NS_PER_S + 150 * NS_PER_MS, 0),
       "after 150 ms one more socket dials");
    ok(!redial_beside(&r, NS_PER_S + 150 * NS_PER_MS, 0) && redial_beside(&r, 20 * NS_PER_S, 0) &&
           !redial_beside(&r, 20 * NS_PER_S, 0),
       "and one more for each such time");
    ok(redial_is_due(&r, NS_PER_S + 150 * NS_PER_MS), "the next attempt does not wait for them");
    redial_begin(&r, NS_PER_S, 120 * NS_PER_S, false);
    (void)redial_attempt(&r, NS_PER_S, 0);
    ok(!redial_beside(&r, 2 * NS_PER_S, 0), "none does after a reset, as the network is there");
}

static void the_kernel_waits_while_this_machine_is_suspended(void)
{
    struct redial r = { 0 };

    redial_begin(&r, NS_PER_S, 120 * NS_PER_S, true);
    redial_slept(&r, 100 * NS_PER_S);
    ok(!redial_is_over(&r, 20 * NS_PER_S) && redial_is_over(&r, 21 * NS_PER_S),
       "a sleep of 100 s is a part of the 120 s");
    redial_admitted(&r, 20 * NS_PER_S);
    ok(!redial_is_over(&r, 139 * NS_PER_S), "who was let in begins anew");
    redial_slept(&r, 3600 * NS_PER_S);
    ok(redial_is_over(&r, 21 * NS_PER_S), "after an hour nobody waits");
}

static void nobody_answers(void)
{
    struct lan l;

    (void)one_rank_for(&l, 6000);
    lan_leave(&l);
    lan_reset(&l, 1);
    is_int(lan_wait(&l, 1), 1, "an agent that can't resume ends");
    ok(lan_wrote(&l, 1, "could not be made anew in 6.0 s"), "and says why");
    lan_close(&l);
}

int main(int argc, char **argv)
{
    if (fake_is_wanted(argc, argv))
        return fake_main(argc, argv);
    self = argv[0];
    a_rank_outlives_its_connection();
    an_answer_is_lost();
    a_connection_ends_before_welcome();
    hello_is_not_answered();
    the_kernel_has_given_it_up();
    answers_are_lost_for_longer_than_the_timeout();
    nobody_answers();
    attempts_that_take_too_long_get_longer();
    sockets_dial_beside_each_other();
    the_kernel_waits_while_this_machine_is_suspended();
    return plan_done();
}
