/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of protocol/session.h. */
#include "protocol/session.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

#define MIB ((size_t)1 << 20)

static unsigned freed;

/* The items are numbers, in memory of their own, so that the sanitizer sees who frees them. */
static void item_free(void *item)
{
    freed++;
    free(item);
}

static int keep(struct session *s, unsigned value, size_t size)
{
    unsigned *item = malloc(sizeof *item);

    if (!item)
        return -1;
    *item = value;
    return session_keep(s, item, size, NULL);
}

/* The value of the next item; 0: there is none. */
static unsigned next(struct session *s)
{
    const unsigned *item = session_next(s);

    return item ? *item : 0;
}

static void begin(struct session *s)
{
    freed = 0;
    session_init(s, item_free);
}

static bool keep_all(struct session *s, unsigned first, unsigned last)
{
    for (unsigned i = first; i <= last; i++)
        if (keep(s, i, 10) < 0)
            return false;
    return true;
}

/* The next items are these, in order, and then no more. */
static bool sends(struct session *s, unsigned first, unsigned last)
{
    for (unsigned i = first; i <= last; i++)
        if (next(s) != i)
            return false;
    return next(s) == 0;
}

static void messages_wait_for_a_connection(void)
{
    struct session s;
    struct err err = { "" };

    begin(&s);
    ok(keep_all(&s, 1, 3) && next(&s) == 0, "without a connection nothing is handed out");
    ok(session_acked(&s, 0, &err) < 0 && err.text[0], "and nothing can be acknowledged");
    ok(session_resume(&s, 0, NULL) == 0 && sends(&s, 1, 3), "then all, in order, once");
    ok(keep_all(&s, 4, 4) && sends(&s, 4, 4), "and later ones at once");
    session_take_back(&s);
    ok(sends(&s, 4, 4), "one that could not be sent comes again");
    is_int(s.kept, 4 * (10 + SESSION_EACH), "all are kept");
    session_release(&s);
    is_int(freed, 4, "and freed at the end");
}

static void what_has_arrived_is_freed(void)
{
    struct session s;

    begin(&s);
    ok(session_resume(&s, 0, NULL) == 0 && keep_all(&s, 1, 100) && sends(&s, 1, 100), "of many");
    ok(session_acked(&s, 60, NULL) == 0 && freed == 60, "those that have arrived are freed");
    ok(session_acked(&s, 60, NULL) == 0 && freed == 60, "which may be said again");
    is_int(s.kept, 40 * (10 + SESSION_EACH), "the others count");
    ok(keep_all(&s, 101, 400) && sends(&s, 101, 400), "more of them find room");
    ok(session_acked(&s, 400, NULL) == 0 && freed == 400 && s.kept == 0 && s.room == 0,
       "when all have arrived, nothing is held");
    ok(keep_all(&s, 401, 402) && sends(&s, 401, 402), "and it goes on");
    session_release(&s);
    is_int(freed, 402, "each is freed once");
}

static void a_new_connection_goes_on(void)
{
    struct session s;

    begin(&s);
    ok(session_resume(&s, 0, NULL) == 0 && keep_all(&s, 1, 8) && sends(&s, 1, 8), "eight are sent");
    ok(session_acked(&s, 2, NULL) == 0, "of which two are known to have arrived");
    session_cut(&s);
    ok(keep_all(&s, 9, 9) && next(&s) == 0, "when it is cut, the next one waits");
    ok(session_acked(&s, 5, NULL) < 0 && freed == 2, "what comes late from there is not believed");
    ok(session_resume(&s, 5, NULL) == 0 && freed == 5 && sends(&s, 6, 9),
       "what the other side lacks is sent again");
    ok(session_resume(&s, 9, NULL) == 0 && freed == 9 && next(&s) == 0,
       "a connection may take another's place, and lack nothing");
    session_release(&s);
}

static void what_can_not_be_is_refused(void)
{
    struct session s;
    struct err err = { "" };

    begin(&s);
    ok(session_resume(&s, 1, &err) < 0 && err.text[0] && !s.connected,
       "nobody has what was never numbered");
    ok(session_resume(&s, 0, NULL) == 0 && keep_all(&s, 1, 6) && next(&s) == 1 && next(&s) == 2,
       "two of six are handed out");
    ok(session_acked(&s, 3, NULL) < 0 && freed == 0, "so three can't have arrived");
    ok(session_acked(&s, 2, NULL) == 0 && session_acked(&s, 1, NULL) < 0 && freed == 2,
       "what has arrived stays so");
    session_cut(&s);
    ok(session_resume(&s, 1, NULL) < 0 && !s.connected, "also on a new connection");
    ok(session_resume(&s, 7, NULL) < 0 && !s.connected && freed == 2, "there are no seven");
    ok(session_resume(&s, UINT64_MAX, NULL) < 0, "nor more than can be counted");
    ok(session_resume(&s, 2, NULL) == 0 && sends(&s, 3, 6), "after that the right number works");
    session_release(&s);
}

static void there_is_a_bound(void)
{
    struct session s;

    begin(&s);
    ok(session_resume(&s, 0, NULL) == 0 && !session_is_full(&s), "it is empty");
    ok(keep(&s, 1, 63 * MIB) == 0 && !session_is_full(&s), "63 MiB are not too much");
    ok(keep(&s, 2, 300 * MIB) == 0 && session_is_full(&s), "one larger message is the last one");
    ok(next(&s) == 1 && session_acked(&s, 1, NULL) == 0 && session_is_full(&s), "it alone is");
    ok(next(&s) == 2 && session_acked(&s, 2, NULL) == 0 && !session_is_full(&s),
       "until it has arrived");
    for (unsigned i = 0; i < SESSION_KEPT_MAX / SESSION_EACH - 1; i++)
        if (keep(&s, 3, 0) < 0)
            break;
    ok(!session_is_full(&s) && keep(&s, 3, 0) == 0 && session_is_full(&s),
       "empty messages need memory, too");
    session_release(&s);
}

static void the_other_side_is_told(void)
{
    struct session s;
    bool due = false;

    begin(&s);
    ok(session_tell(&s) == 0, "nothing has arrived");
    for (unsigned i = 0; i < 7; i++)
        due = due || session_received(&s, MIB);
    ok(!due && session_tell(&s) == 7, "seven messages of a MiB need no word of their own");
    for (unsigned i = 0; i < 7; i++)
        due = due || session_received(&s, MIB);
    ok(!due && session_received(&s, MIB), "of eight since then the other side is told at once");
    is_int(session_tell(&s), 15, "of all that have arrived");
    ok(!session_received(&s, 0), "then it is counted anew");
    session_cut(&s);
    ok(session_resume(&s, 0, NULL) == 0 && session_tell(&s) == 16, "also on a new connection");
    session_release(&s);
}

static void memory_is_out(void)
{
    struct session s;
    unsigned *item = malloc(sizeof *item);
    struct err err = { "" };

    begin(&s);
    *item = 1;
    alloc_fail_at(0);
    ok(session_keep(&s, item, 10, &err) < 0 && alloc_failed() && freed == 1 && err.text[0],
       "a message for which there is no memory is freed");
    alloc_fail_at(-1);
    ok(s.numbered == 0 && s.kept == 0 && s.room == 0, "and has no number");
    ok(session_resume(&s, 0, NULL) == 0 && keep_all(&s, 1, 16), "the ring is full");
    item = malloc(sizeof *item);
    alloc_fail_at(0);
    ok(session_keep(&s, item, 10, &err) < 0 && alloc_failed(), "so the next one needs memory");
    alloc_fail_at(-1);
    ok(s.numbered == 16 && sends(&s, 1, 16), "without it the others are as they were");
    ok(keep_all(&s, 17, 17) && sends(&s, 17, 17), "and it may be tried again");
    session_release(&s);
}

/* Two sides, and connections that end at any moment with all that is under way: each message
 * arrives once and in order. */
static void any_cut_loses_nothing(void)
{
    uint64_t random = 7;
    unsigned arrived = 0, sent = 0, cuts = 0;
    bool good = true;
    struct session a, b;

    begin(&a);
    session_init(&b, item_free);
    for (unsigned step = 0; step < 20000 && good; step++) {
        const unsigned *item;

        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        switch (random >> 61) {
        case 0:
            session_cut(&a);
            good = session_resume(&a, session_tell(&b), NULL) == 0;
            cuts++;
            break;
        case 1: /* handed to a connection, and lost with it */
            (void)session_next(&a);
            session_cut(&a);
            good = session_resume(&a, session_tell(&b), NULL) == 0;
            break;
        case 2:
            if (a.connected)
                good = session_acked(&a, session_tell(&b), NULL) == 0;
            break;
        case 3:
        case 4:
            good = keep(&a, ++sent, 1) == 0;
            break;
        default:
            if ((item = session_next(&a))) {
                good = *item == ++arrived;
                (void)session_received(&b, 1);
            }
        }
    }
    ok(good && cuts > 1000 && arrived > 3000 && b.received == arrived && arrived <= sent,
       "%u messages over %u connections, each once and in order", arrived, cuts);
    session_release(&a);
    session_release(&b);
    is_int(freed, sent, "and each is freed once");
}

int main(void)
{
    messages_wait_for_a_connection();
    what_has_arrived_is_freed();
    a_new_connection_goes_on();
    what_can_not_be_is_refused();
    there_is_a_bound();
    the_other_side_is_told();
    memory_is_out();
    any_cut_loses_nothing();
    return plan_done();
}
