/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/mux/mux.h: two ends, and a connection between them that cuts bytes anywhere. */
#include "base/mux/mux.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

#define STREAMS 5
#define STEPS   20000

/* One end. What it sends and gets of stream s is (position * 7 + s) modulo 256. */
struct end {
    struct mux mux;
    uint64_t sent[STREAMS + 1], got[STREAMS + 1], left[STREAMS + 1];
    bool open[STREAMS + 1];
    unsigned opened, closed, rooms;
    bool wrong, refuses;
};

static uint64_t state;

static uint32_t chance(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static char byte_at(uint32_t stream, uint64_t n)
{
    return (char)(uint8_t)(n * 7 + stream);
}

static bool on_opened(void *arg, uint32_t stream)
{
    struct end *e = arg;

    e->opened++;
    if (stream <= STREAMS)
        e->open[stream] = true;
    return !e->refuses;
}

static void on_data(void *arg, uint32_t stream, struct slice bytes)
{
    struct end *e = arg;

    if (stream > STREAMS)
        return;
    for (size_t i = 0; i < bytes.n; i++)
        e->wrong = e->wrong || bytes.p[i] != byte_at(stream, e->got[stream]++);
    e->wrong = e->wrong || e->got[stream] - e->left[stream] > MUX_WINDOW;
}

static void on_room(void *arg, uint32_t stream)
{
    (void)stream;
    ((struct end *)arg)->rooms++;
}

static void on_closed(void *arg, uint32_t stream)
{
    struct end *e = arg;

    e->closed++;
    if (stream <= STREAMS)
        e->open[stream] = false;
}

static void init(struct end *e, bool accepts)
{
    const struct mux_handler handler = { accepts ? on_opened : NULL, on_data, on_room, on_closed,
                                         e };

    memset(e, 0, sizeof *e);
    mux_init(&e->mux, &handler);
}

/* Some of what one end has to send arrives. -1: it was refused. */
static int carry(struct end *from, struct end *to, size_t most, struct err *err)
{
    const size_t n = from->mux.out.n < most ? from->mux.out.n : most;
    char *bytes = malloc(n + 1); /* of its own, so that a read beyond it is found */
    int rc;

    memcpy(bytes, from->mux.out.n ? from->mux.out.p : "", n);
    rc = mux_received(&to->mux, slice_of(bytes, n), err);
    free(bytes);
    buf_drop(&from->mux.out, n);
    return rc;
}

static void settle(struct end *a, struct end *b)
{
    struct err err = { "" };

    while (a->mux.out.n || b->mux.out.n)
        if (carry(a, b, SIZE_MAX, &err) < 0 || carry(b, a, SIZE_MAX, &err) < 0) {
            ok(false, "%s", err.text);
            return;
        }
}

static bool send_some(struct end *e, uint32_t stream, size_t most)
{
    static char bytes[3 * MUX_DATA_MAX];
    const uint32_t room = mux_room(&e->mux, stream);
    size_t n = chance(sizeof bytes);

    n = n < room ? n : room;
    n = n < most ? n : most;
    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(stream, e->sent[stream] + i);
    e->sent[stream] += n;
    return mux_send(&e->mux, stream, slice_of(bytes, n)) == 0;
}

static bool leave_some(struct end *e, uint32_t stream)
{
    const uint32_t waits = (uint32_t)(e->got[stream] - e->left[stream]);
    const uint32_t n = waits ? chance(waits + 1) : 0;

    e->left[stream] += n;
    return mux_left(&e->mux, stream, n) == 0;
}

static void streams_do_not_mix(void)
{
    struct end a, b;
    struct err err = { "" };
    bool good = true, all = true;

    init(&a, false);
    init(&b, true);
    for (uint32_t s = 1; s <= STREAMS; s++)
        good = good && mux_open(&a.mux) == s;
    ok(good, "streams have numbers from 1");
    for (unsigned i = 0; i < STEPS && good; i++) {
        struct end *e = chance(2) ? &a : &b;
        const uint32_t s = 1 + chance(STREAMS);

        if (e == &a || b.open[s])
            good = chance(3) ? leave_some(e, s) : send_some(e, s, SIZE_MAX);
        good = good && carry(e, e == &a ? &b : &a, chance(100000), &err) == 0;
    }
    ok(good && !a.wrong && !b.wrong, "every byte comes once, in order, within the window %s",
       err.text);
    settle(&a, &b);
    for (uint32_t s = 1; s <= STREAMS; s++)
        all = all && a.sent[s] == b.got[s] && b.sent[s] == a.got[s] && a.sent[s] > MUX_WINDOW;
    ok(all && a.rooms && b.rooms, "all have come, more than a window of each stream");
    mux_release(&a.mux);
    mux_release(&b.mux);
}

static void one_that_nobody_reads_holds_up_no_other(void)
{
    struct end a, b;
    bool left = true;

    init(&a, false);
    init(&b, true);
    is_int(mux_open(&a.mux), 1, "a stream");
    is_int(mux_open(&a.mux), 2, "another one");
    while (mux_room(&a.mux, 1))
        (void)send_some(&a, 1, SIZE_MAX);
    settle(&a, &b);
    is_int((int64_t)b.got[1], MUX_WINDOW, "one window of it comes");
    is_int(mux_room(&a.mux, 1), 0, "no more may be sent");
    ok(mux_send(&a.mux, 1, slice_text("x")) < 0, "and it is not");
    for (int i = 0; i < 200; i++) {
        (void)send_some(&a, 2, SIZE_MAX);
        settle(&a, &b);
        b.left[2] = b.got[2];
        left = left && mux_left(&b.mux, 2, MUX_WINDOW) == 0;
        settle(&a, &b);
    }
    ok(left && b.got[2] == a.sent[2] && b.got[2] > 4 * MUX_WINDOW, "while the other one flows");
    is_int(a.mux.out.n + b.mux.out.n, 0, "at rest nothing waits");
    mux_release(&a.mux);
    mux_release(&b.mux);
}

static void streams_end(void)
{
    struct end a, b;
    struct err err = { "" };

    init(&a, false);
    init(&b, true);
    (void)mux_open(&a.mux);
    (void)mux_open(&a.mux);
    settle(&a, &b);
    (void)send_some(&b, 1, 1000);
    ok(mux_close(&a.mux, 1) == 0, "one end closes it while bytes are on their way there");
    settle(&a, &b);
    ok(b.closed == 1 && !b.open[1] && a.closed == 0,
       "the other end is told, and nothing else happens");
    ok(mux_room(&a.mux, 1) == 0 && mux_room(&b.mux, 1) == 0 && mux_left(&b.mux, 1, 5) == 0 &&
           mux_close(&b.mux, 1) == 0 && b.mux.out.n == 0,
       "it is closed for all functions");
    b.refuses = true;
    is_int(mux_open(&a.mux), 3, "a third one");
    settle(&a, &b);
    is_int(a.closed, 1, "which the other end does not want");
    is_int(mux_open(&b.mux), 0, "that end opens none");
    ok(mux_ping(&a.mux) == 0 && mux_end(&a.mux) == 0 && mux_ping(&a.mux) == 0,
       "a ping, and the end");
    ok(carry(&a, &b, SIZE_MAX, &err) == 0 && b.mux.heard_end, "the end is heard");
    mux_release(&a.mux);
    mux_release(&b.mux);
    init(&a, false);
    for (uint32_t s = 1; s <= MUX_STREAMS_MAX; s++)
        (void)mux_open(&a.mux);
    is_int(mux_open(&a.mux), 0, "no more than %u at once", MUX_STREAMS_MAX);
    ok(mux_close(&a.mux, 7) == 0 && mux_open(&a.mux) == MUX_STREAMS_MAX + 1,
       "but one after another");
    mux_release(&a.mux);
}

/* The bytes of a frame. */
static struct slice frame(char to[static MUX_HEADER_SIZE], unsigned kind, uint32_t stream,
                          uint32_t n)
{
    to[0] = (char)kind;
    le_put(to + 1, 4, stream);
    le_put(to + 5, 4, n);
    return slice_of(to, MUX_HEADER_SIZE);
}

static void what_makes_no_sense_is_refused(void)
{
    static const struct {
        unsigned kind;
        uint32_t stream, n;
        const char *why;
    } wrong[] = {
        { 0, 0, 0, "kind 0" },
        { 7, 1, 0, "kind 7" },
        { MUX_OPEN, 1, 0, "opens stream 1 after 1" },
        { MUX_OPEN, 3, 0, "opens stream 3 after 1" },
        { MUX_DATA, 1, MUX_DATA_MAX + 1, "a frame of" },
        { MUX_DATA, 1, UINT32_MAX, "a frame of" },
        { MUX_DATA, 2, 0, "stream 2, which nobody opened" },
        { MUX_CLOSE, 9, 0, "stream 9, which nobody opened" },
        { MUX_CREDIT, 1, 1, "more credit" },
        { MUX_CREDIT, 1, UINT32_MAX, "more credit" },
    };
    char bytes[MUX_HEADER_SIZE];
    struct end b;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err err = { "" };

        init(&b, true);
        ok(mux_received(&b.mux, frame(bytes, MUX_OPEN, 1, 0), &err) == 0, "a stream");
        ok(mux_received(&b.mux, frame(bytes, wrong[i].kind, wrong[i].stream, wrong[i].n), &err) <
                   0 &&
               strstr(err.text, wrong[i].why),
           "kind %u: %s", wrong[i].kind, err.text);
        mux_release(&b.mux);
    }
}

static void more_than_the_window_is_refused(void)
{
    static char bytes[MUX_HEADER_SIZE + MUX_DATA_MAX];
    struct end b;
    struct err err = { "" };
    int rc = 0;

    init(&b, true);
    rc = mux_received(&b.mux, frame(bytes, MUX_OPEN, 1, 0), &err);
    (void)frame(bytes, MUX_DATA, 1, MUX_DATA_MAX);
    for (unsigned i = 0; rc == 0 && i < MUX_WINDOW / MUX_DATA_MAX; i++)
        rc = mux_received(&b.mux, slice_of(bytes, sizeof bytes), &err);
    is_int(rc, 0, "a whole window may be on its way");
    ok(mux_received(&b.mux, slice_of(bytes, sizeof bytes), &err) < 0 &&
           strstr(err.text, "than it may"),
       "but no more: %s", err.text);
    mux_release(&b.mux);
}

static void memory_is_out(void)
{
    for (long nth = 0; nth < 12; nth++) {
        struct end a, b;
        struct err err = { "" };
        bool good;

        init(&a, false);
        init(&b, true);
        alloc_fail_at(nth);
        good = mux_open(&a.mux) == 1 && mux_send(&a.mux, 1, slice_text("some bytes")) == 0 &&
               mux_received(&b.mux, buf_slice(&a.mux.out), &err) == 0 && mux_end(&b.mux) == 0;
        if (alloc_failed())
            ok(!good, "allocation %ld fails, and the caller learns it", nth);
        alloc_fail_at(-1);
        mux_release(&a.mux);
        mux_release(&b.mux);
    }
}

int main(void)
{
    state = 20;
    streams_do_not_mix();
    one_that_nobody_reads_holds_up_no_other();
    streams_end();
    what_makes_no_sense_is_refused();
    more_than_the_window_is_refused();
    memory_is_out();
    return plan_done();
}
