/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of protocol/send_window.h. */
#include "protocol/send_window.h"
#include "protocol/span.h"
#include "tests/unit/tap.h"

#define MIB ((uint64_t)SPAN_CHUNK_MAX)
#define MS  UINT64_C(1000000)

/* Sends what may be sent, and answers it chunk by chunk, each `each_ns` after the one before, for
 * `chunks` of them. */
static void go(struct send_window *p, uint64_t *now_ns, uint64_t each_ns, unsigned chunks)
{
    while (chunks-- > 0) {
        while (send_window_is_due(p))
            send_window_sent(p, MIB, *now_ns);
        *now_ns += each_ns;
        send_window_acked(p, p->acked + MIB, *now_ns);
    }
}

static void a_quick_way(void)
{
    uint64_t now = 5;
    struct send_window p;

    send_window_begin(&p, 3 * MIB);
    ok(p.sent == 3 * MIB && p.acked == 3 * MIB && send_window_is_due(&p),
       "it begins where the taker is");
    send_window_sent(&p, MIB, now);
    send_window_sent(&p, MIB, now);
    ok(!send_window_is_due(&p) && p.sent == 5 * MIB, "with two chunks");
    send_window_acked(&p, 4 * MIB, now + 5 * MS);
    ok(send_window_is_due(&p) && p.window == 4 * MIB,
       "and twice as many once the first is answered");
    send_window_acked(&p, 5 * MIB, now + 6 * MS);
    is_int(p.window, 4 * MIB, "of which one at a time is timed");
    go(&p, &now, 10 * MS, 50);
    is_int(p.window, SPAN_CHUNK_WINDOW, "a gigabit a second is given the whole window");
    go(&p, &now, MS / 10, 50);
    is_int(p.window, SPAN_CHUNK_WINDOW, "and what is quicker, no more");
}

static void a_slow_way(void)
{
    uint64_t now = 5;
    struct send_window p;

    send_window_begin(&p, 0);
    go(&p, &now, 840 * MS, 3);
    is_int(p.window, MIB, "ten megabits a second are given one chunk");
    go(&p, &now, 840 * MS, 20);
    is_int(p.window, MIB, "never less");
    go(&p, &now, 84 * MS, 40);
    ok(p.window >= 2 * MIB && p.window <= 4 * MIB,
       "a hundred, as many as they carry in half a second");
    go(&p, &now, 8 * MS, 40);
    is_int(p.window, SPAN_CHUNK_WINDOW, "and when it is quick again, all");
    go(&p, &now, 3000 * MS, 1);
    ok(p.window >= SPAN_CHUNK_WINDOW / 2, "a link that was down for a while halves it once");
}

static void another_gave_it(void)
{
    struct send_window p;

    send_window_begin(&p, 0);
    send_window_sent(&p, MIB, 0);
    send_window_acked(&p, 7 * MIB, 1);
    ok(p.sent == 7 * MIB && p.acked == 7 * MIB, "what the taker has from elsewhere is not sent");
    send_window_acked(&p, 2 * MIB, 2);
    ok(p.sent == 7 * MIB && p.acked == 7 * MIB, "an answer that is late takes nothing back");
    send_window_sent(&p, MIB, 3);
    send_window_begin(&p, p.acked);
    ok(p.sent == 7 * MIB && p.timed == 0, "begun anew, what was on the way comes again");
}

int main(void)
{
    a_quick_way();
    a_slow_way();
    another_gave_it();
    return plan_done();
}
