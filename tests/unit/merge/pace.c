/* SPDX-License-Identifier: BSD-3-Clause */
/* At most 20 messages in any second, none over 1 MiB, nothing lost. */
#include "kernel/merge/pace.h"

#include <stdlib.h>

#include "base/buf.h"
#include "tests/unit/tap.h"

#define MIB   ((size_t)1 << 20)
#define SENDS 4096u

struct sink {
    uint64_t now;
    struct clock clock;
    struct pace *p;
    uint64_t at[SENDS];
    unsigned sends;
    size_t largest;
    struct buf got[2];
    struct buf order; /* the streams, as they were sent */
    int rc;
};

static uint64_t sink_now(void *arg)
{
    return ((struct sink *)arg)->now;
}

static int sink_take(void *arg, unsigned stream, struct slice text)
{
    struct sink *s = arg;

    if (s->sends == SENDS)
        abort();
    s->at[s->sends++] = s->now;
    if (text.n > s->largest)
        s->largest = text.n;
    if (buf_addf(&s->order, "%u", stream) < 0)
        abort();
    return buf_add_slice(&s->got[stream - 1], text) < 0 ? -1 : s->rc;
}

static void sink_init(struct sink *s)
{
    struct err err = { "" };

    *s = (struct sink){ .now = 5 * NS_PER_S };
    s->clock = (struct clock){ .now_ns = sink_now, .arg = s };
    s->p = pace_create(&s->clock, sink_take, s, &err);
    if (!s->p || buf_add_text(&s->got[0], "") < 0 || buf_add_text(&s->got[1], "") < 0 ||
        buf_add_text(&s->order, "") < 0)
        abort();
}

static void sink_release(struct sink *s)
{
    pace_destroy(s->p);
    buf_release(&s->got[0]);
    buf_release(&s->got[1]);
    buf_release(&s->order);
}

static void add(struct sink *s, unsigned stream, const char *text)
{
    struct err err = { "" };

    if (pace_add(s->p, stream, slice_text(text), &err) < 0)
        ok(false, "text is taken");
}

static void wait_ms(struct sink *s, unsigned ms)
{
    const uint64_t end = s->now + ms * NS_PER_MS;
    struct err err = { "" };

    while (pace_due_ns(s->p) <= end) {
        if (pace_due_ns(s->p) > s->now)
            s->now = pace_due_ns(s->p);
        if (pace_tick(s->p, &err) < 0 || pace_due_ns(s->p) <= s->now) {
            ok(false, "what is due leaves");
            return;
        }
    }
    s->now = end;
}

static void the_first_leaves_at_once_then_they_gather(void)
{
    struct sink s;

    sink_init(&s);
    add(&s, 1, "a\n");
    is_text(s.got[0].p, "a\n", "the first leaves at once");
    add(&s, 1, "b\n");
    add(&s, 1, "c\n");
    is_int(s.sends, 1, "the next ones wait");
    is_int(pace_waiting(s.p), 4, "and are counted");
    wait_ms(&s, 99);
    is_int(s.sends, 1, "for 100 ms");
    wait_ms(&s, 1);
    is_text(s.got[0].p, "a\nb\nc\n", "then they leave together");
    is_int(s.sends, 2, "in one message");
    ok(pace_due_ns(s.p) == UINT64_MAX, "nothing is due then");
    wait_ms(&s, 100);
    add(&s, 1, "d\n");
    is_int(s.sends, 3, "after a pause the first leaves at once again");
    sink_release(&s);
}

static void streams_stay_apart_and_in_order(void)
{
    struct sink s;

    sink_init(&s);
    add(&s, 1, "x");
    for (int i = 0; i < 50; i++) {
        add(&s, 2, "e\n");
        add(&s, 1, "o\n");
    }
    wait_ms(&s, 100);
    is_text(s.order.p, "12121212121212121",
            "many quick changes cost a few messages, the first ones in order");
    is_int(s.got[0].n + s.got[1].n, 201, "nothing is lost");
    sink_release(&s);
}

static void a_few_changes_keep_their_order(void)
{
    struct sink s;

    sink_init(&s);
    add(&s, 1, "x");
    add(&s, 1, "out 1\n");
    add(&s, 2, "err 2\n");
    add(&s, 2, "err 3\n");
    add(&s, 1, "out 4\n");
    is_int(s.sends, 1, "they wait for the gap's end");
    wait_ms(&s, 100);
    is_text(s.order.p, "1121", "each change is a message");
    is_int(s.sends, 4, "and what one stream wrote at a stretch one");
    is_text(s.got[1].p, "err 2\nerr 3\n", "nothing is lost");
    sink_release(&s);
}

/* Eight ranks end a progress bar on stderr, and each prints a line then. */
static void bars_of_ranks_stand_above_their_lines(void)
{
    struct sink s;

    sink_init(&s);
    add(&s, 1, "x");
    for (int rank = 0; rank < 8; rank++) {
        add(&s, 2, "bar\n");
        add(&s, 1, "line\n");
    }
    wait_ms(&s, 100);
    is_text(s.order.p, "12121212121212121", "each bar and each line is a message of its own");
    is_int(s.got[1].n, 32, "and no bar waits for another one");
    sink_release(&s);
}

/* The most that left in any second. */
static unsigned most_in_a_second(const struct sink *s)
{
    unsigned most = 0;

    for (unsigned i = 0, first = 0; i < s->sends; i++) {
        while (s->at[i] - s->at[first] >= NS_PER_S)
            first++;
        if (i - first + 1 > most)
            most = i - first + 1;
    }
    return most;
}

static void no_more_than_20_a_second(void)
{
    struct sink s;
    struct buf block = BUF_INIT;
    struct err err = { "" };
    size_t fed = 0;

    sink_init(&s);
    while (block.n < 700000)
        if (buf_addf(&block, "this is line %zu of \"many\"\n", block.n) < 0)
            abort();
    for (int k = 0; k < 100; k++) {
        if (pace_add(s.p, k % 3 ? 1 : 2, buf_slice(&block), &err) < 0)
            abort();
        fed += block.n;
        wait_ms(&s, 7);
    }
    ok(pace_waiting(s.p) > 0, "more comes than may leave");
    wait_ms(&s, 20000);
    is_int(pace_waiting(s.p), 0, "in the end all has left");
    ok(s.got[0].n + s.got[1].n == fed, "and arrived");
    ok(most_in_a_second(&s) <= 20, "at most 20 in any second (%u)", most_in_a_second(&s));
    ok(s.largest < MIB && s.largest > MIB / 2, "messages are large, but not over 1 MiB (%zu)",
       s.largest);
    buf_release(&block);
    sink_release(&s);
}

static void the_end_of_a_busy_cell_keeps_to_the_rate(void)
{
    struct sink s;
    struct err err = { "" };

    sink_init(&s);
    for (unsigned k = 0; k < 40; k++) {
        for (unsigned change = 0; change < 6; change++)
            add(&s, 1 + change % 2, "line\n");
        wait_ms(&s, 40);
    }
    for (unsigned change = 0; change < 6; change++)
        add(&s, 1 + change % 2, "line\n");
    ok(pace_flush(s.p, &err) == 0, "the end of it is flushed");
    ok(most_in_a_second(&s) <= 22,
       "what waits at the end are two messages more, not one for each change: %u",
       most_in_a_second(&s));
    is_int(s.got[0].n, 41 * 3 * 5, "nothing is lost");
    is_int(s.got[1].n, 41 * 3 * 5, "of either stream");
    sink_release(&s);
}

static void cuts_are_at_characters(void)
{
    struct sink s;
    struct buf block = BUF_INIT;
    struct err err = { "" };
    bool whole = true;

    sink_init(&s);
    while (block.n < 3 * MIB)
        if (buf_add_text(&block, "\xe2\x82\xac\x01") < 0) /* \u0001 in JSON: six bytes */
            abort();
    ok(pace_add(s.p, 1, buf_slice(&block), &err) == 0, "3 MiB without a newline are taken");
    ok(s.sends > 1 && s.largest * 9 / 4 <= MIB, "what JSON makes longer is cut earlier (%zu)",
       s.largest);
    ok(pace_flush(s.p, &err) == 0, "the rest is flushed");
    whole = s.got[0].n == block.n && memcmp(s.got[0].p, block.p, block.n) == 0;
    ok(whole, "nothing is lost or replaced");
    buf_release(&block);
    sink_release(&s);
}

static void torn_characters_wait(void)
{
    struct sink s;
    struct err err = { "" };

    sink_init(&s);
    add(&s, 1, "a\xe2\x82");
    is_text(s.got[0].p, "a", "half a character stays");
    is_int(pace_waiting(s.p), 2, "and counts");
    add(&s, 2, "\xac");
    add(&s, 1, "\xac");
    wait_ms(&s, 200);
    is_text(s.got[0].p, "a\xe2\x82\xac", "its rest completes it");
    is_text(s.got[1].p, "\xef\xbf\xbd", "the other stream's bytes don't");
    add(&s, 1, "\xe2");
    ok(pace_flush(s.p, &err) == 0, "at the end");
    is_text(s.got[0].p, "a\xe2\x82\xac\xef\xbf\xbd", "what has no rest is replaced");
    sink_release(&s);
}

static void a_flush_ignores_the_gap(void)
{
    struct sink s;
    struct err err = { "" };

    sink_init(&s);
    add(&s, 1, "a");
    add(&s, 2, "b");
    add(&s, 1, "c");
    ok(pace_flush(s.p, &err) == 0 && pace_flush(s.p, &err) == 0,
       "a flush, and one with nothing to do");
    is_text(s.order.p, "121", "in the order in which text came");
    s.rc = -1;
    wait_ms(&s, 100);
    is_int(pace_add(s.p, 1, slice_text("d"), &err), -1, "what out says is handed through");
    sink_release(&s);
}

int main(void)
{
    the_first_leaves_at_once_then_they_gather();
    streams_stay_apart_and_in_order();
    a_few_changes_keep_their_order();
    bars_of_ranks_stand_above_their_lines();
    no_more_than_20_a_second();
    the_end_of_a_busy_cell_keeps_to_the_rate();
    cuts_are_at_characters();
    torn_characters_wait();
    a_flush_ignores_the_gap();
    return plan_done();
}
