/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines from data that is read in arbitrary pieces, with a clock that the test sets. */
#include <stdlib.h>

#include "tests/unit/tap.h"
#include "worker/agent/output/lines.h"

static int put(void *arg, struct slice data, unsigned flags)
{
    struct buf *out = arg;

    return buf_addf(out, "%u<%.*s>", flags, SLICE_ARG(data));
}

static int put_bytes(void *arg, struct slice data, unsigned flags)
{
    (void)flags;
    return buf_add_slice(arg, data);
}

static void feed(struct lines *l, const char *text, unsigned ms)
{
    if (lines_feed(l, slice_text(text), ms * NS_PER_MS) < 0)
        ok(false, "memory");
}

static void is_out(struct buf *out, const char *want, const char *name)
{
    is_text(out->n ? out->p : "", want, "%s", name);
    buf_clear(out);
}

static void whole_lines_leave_at_once(void)
{
    struct buf out = BUF_INIT;
    struct lines l = LINES_INIT(put, &out);

    feed(&l, "a\nb\nc", 1);
    is_out(&out, "0<a\nb\n>", "whole lines leave together, the rest waits");
    is_int(lines_due_ns(&l), NS_PER_MS + LINES_HOLD_NS, "for a while");
    feed(&l, "d\n", 2);
    is_out(&out, "0<cd\n>", "a line is joined");
    ok(lines_due_ns(&l) == UINT64_MAX, "then nothing waits");
    feed(&l, "x\r\ny\r", 3);
    is_out(&out, "0<x\r\n>", "CR LF ends a line");
    feed(&l, "\n", 4);
    is_out(&out, "0<y\r\n>", "also when it is torn");
    lines_release(&l);
    buf_release(&out);
}

static void unfinished_lines_leave_late(void)
{
    struct buf out = BUF_INIT;
    struct lines l = LINES_INIT(put, &out);

    feed(&l, "prompt? ", 0);
    ok(lines_tick(&l, LINES_HOLD_NS - 1) == 0, "tick");
    is_out(&out, "", "an unfinished line waits");
    lines_wait(&l, NS_PER_MS);
    ok(lines_tick(&l, LINES_HOLD_NS) == 0, "tick");
    is_out(&out, "", "longer when more was seen that nobody has read");
    ok(lines_tick(&l, NS_PER_MS + LINES_HOLD_NS) == 0, "tick");
    is_out(&out, "1<prompt? >", "and no longer than that");
    for (unsigned ms = 1000; ms < 2100; ms += 100) {
        feed(&l, ".", ms);
        ok(lines_tick(&l, ms * NS_PER_MS) == 0, "tick");
    }
    is_out(&out, "1<...........>", "dots that keep coming leave after a second");
    feed(&l, "end", 3000);
    ok(lines_flush(&l) == 0, "flush");
    is_out(&out, "1<end>", "a flush puts out what there is");
    lines_release(&l);
    buf_release(&out);
}

static void progress_is_thinned(void)
{
    struct buf out = BUF_INIT;
    struct lines l = LINES_INIT(put, &out);
    unsigned messages = 0;
    char text[16];

    for (unsigned ms = 1; ms < 1000; ms++) {
        snprintf(text, sizeof text, "\r%u%%", ms / 10);
        feed(&l, text, ms);
        messages += out.n > 0;
        buf_clear(&out);
    }
    ok(messages >= 9 && messages <= 11, "a thousand states a second leave in %u messages",
       messages);
    feed(&l, "\n", 1000);
    ok(out.n > 2 && out.p[0] == '0' && out.p[out.n - 2] == '\n', "the newline ends the bar");
    buf_clear(&out);
    feed(&l, "50%\r", 2000);
    ok(lines_tick(&l, 2000 * NS_PER_MS + LINES_HOLD_NS) == 0, "tick");
    is_out(&out, "2<50%\r>",
           "a state that ends with its carriage return is one, when no newline follows");
    lines_release(&l);
    buf_release(&out);
}

static void long_lines_leave_in_pieces(void)
{
    struct buf out = BUF_INIT;
    struct lines l = LINES_INIT(put, &out);
    char *text = malloc(LINE_BYTES_MAX + 3);

    memset(text, 'x', LINE_BYTES_MAX - 1);
    memcpy(text + LINE_BYTES_MAX - 1, "\xc3\xa4y", 4);
    feed(&l, text, 1);
    ok(out.n == LINE_BYTES_MAX - 1 + 3 && out.p[0] == '1',
       "a long line is cut, but not within a character");
    is_int(l.held.n, 3, "the rest waits");
    free(text);
    lines_release(&l);
    buf_release(&out);
}

/* Whatever the tearing, the bytes and their order stay. */
static void nothing_is_lost(void)
{
    static const char alphabet[] = "ab\n\r\xc3\xa4";
    struct buf out = BUF_INIT, in = BUF_INIT;
    struct lines l = LINES_INIT(put_bytes, &out);
    uint64_t seed = 42, now = 0;
    bool good = true;

    for (int i = 0; i < 20000; i++) {
        char piece[8];
        size_t n = 0;

        for (seed = seed * 6364136223846793005u + 1; n < (seed >> 60) % 8; n++)
            piece[n] = alphabet[(seed >> (8 + 5 * n)) % 6];
        now += (seed >> 50) % 64 * NS_PER_MS;
        good = good && buf_add(&in, piece, n) == 0 && lines_feed(&l, slice_of(piece, n), now) == 0;
        if (seed >> 63)
            good = good && lines_tick(&l, now) == 0;
    }
    good = good && lines_flush(&l) == 0;
    ok(good && slice_equal(buf_slice(&in), buf_slice(&out)), "%zu bytes come out as they went in",
       in.n);
    lines_release(&l);
    buf_release(&in);
    buf_release(&out);
}

static void a_step_up_ends_a_state(void)
{
    struct buf out = BUF_INIT;
    struct lines l = LINES_INIT(put, &out);

    feed(&l, "\n\n", 1);
    is_out(&out, "0<\n\n>", "the way down");
    feed(&l, "\r10%", 200);
    feed(&l, "\x1b[A\x1b[", 200);
    is_out(&out, "2<\r10%\x1b[A>", "the way up follows the bar at once");
    feed(&l, "1A", 400);
    is_out(&out, "2<\x1b[1A>", "also when it is torn");
    feed(&l, "[A", 600);
    is_out(&out, "", "other text with an A waits");
    lines_release(&l);
    buf_release(&out);
}

int main(void)
{
    whole_lines_leave_at_once();
    unfinished_lines_leave_late();
    progress_is_thinned();
    long_lines_leave_in_pieces();
    nothing_is_lost();
    a_step_up_ends_a_state();
    return plan_done();
}
