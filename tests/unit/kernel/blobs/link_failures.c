/* SPDX-License-Identifier: BSD-3-Clause */
/* Links between nodes that end, go silent, or can't be made, and are tried anew. */
#include "tests/unit/kernel/blobs/yard.h"

#include "protocol/span_fields.h"
#include "tests/unit/tap.h"

#define BIG    ((1u << 20) + 77)
#define LONGER ((uint32_t)SPAN_CHUNK_WINDOW + (2u << 20) - 1) /* than a window */
#define ENOUGH 1000000u

static bool all_have(const struct yard *y, unsigned first, unsigned last, uint64_t blob,
                     uint64_t size)
{
    while (first <= last && yard_has(y, first, blob, size) && !yard_waits(y, first, blob))
        first++;
    return first > last;
}

/* Four nodes, and a blob on its way from one to the next. */
static void begin_chain(struct yard *y, uint64_t size)
{
    yard_init(y, 4, 10);
    yard_put(y, 0, 1, size);
    yard_need(y, 1, size, 1, 3);
    for (unsigned i = 0; i < 500 && y->peer_chunks < 5; i++)
        yard_run(y, 1);
}

enum way { ANY, BY_KERNEL, BY_LINK };

/* How often a link is opened while another large blob goes from node 1 to node 2. */
static unsigned goes(struct yard *y, uint64_t blob, enum way way, const char *what)
{
    const unsigned opens = y->opens[1][2], chunks = y->chunks[1][2];

    yard_put(y, 1, blob, BIG);
    yard_need(y, blob, BIG, 2, 3);
    yard_run(y, ENOUGH);
    if (what)
        ok(all_have(y, 2, 3, blob, BIG) &&
               (way == ANY || (y->chunks[1][2] > chunks) == (way == BY_LINK)),
           "%s", what);
    blob_schedule_drop(y->schedule, blob);
    yard_run(y, ENOUGH);
    return y->opens[1][2] - opens;
}

static void seconds_pass(struct yard *y, unsigned node, unsigned n)
{
    for (; n > 0; n--) {
        y->now_ns += NS_PER_S;
        transfers_check(y->node[node].carrier, 10 * NS_PER_S);
    }
}

static void a_link_goes_dead(bool silently)
{
    struct yard y;

    begin_chain(&y, LONGER);
    if (silently)
        y.node[1].is_mute = true;
    else
        yard_cut(&y, 1, 2);
    yard_run(&y, ENOUGH);
    if (silently) {
        ok(yard_waits(&y, 2, 1) && yard_waits(&y, 3, 1),
           "what is lost on a link is not noticed by anybody at first");
        seconds_pass(&y, 1, 9);
        is_int(yard_run(&y, ENOUGH), 0, "nor before its time");
        y.now_ns += 60 * NS_PER_S;
        seconds_pass(&y, 1, 9);
        is_int(yard_run(&y, ENOUGH), 0, "a sender that stood still has not waited");
        for (unsigned s = 0; s < 60; s++) {
            transfers_stand_still(y.node[1].carrier);
            y.now_ns += NS_PER_S;
        }
        seconds_pass(&y, 1, 9);
        is_int(yard_run(&y, ENOUGH), 0, "nor one that was cut off");
        seconds_pass(&y, 1, 3);
        yard_run(&y, ENOUGH);
    }
    ok(all_have(&y, 1, 3, 1, LONGER), "a link that %s is replaced by way of the kernel",
       silently ? "goes silent" : "ends");
    y.node[1].is_mute = false;
    goes(&y, 2, BY_KERNEL, "the next blob goes by way of the kernel, too");
    y.now_ns += 11 * NS_PER_S;
    is_int(goes(&y, 3, ANY, "a later one does not wait for the link"), 1, "which is tried anew");
    is_int(goes(&y, 4, BY_LINK, "and takes the blob after that"), 0, "as it is");
    yard_release(&y);
}

/* One that can't be made is tried seldom: at first after 10 s, then after 20, and so on. */
static void a_link_stays_bad(void)
{
    struct yard y;
    unsigned tried = 0;

    yard_init(&y, 4, 10);
    y.node[2].refuses_dial = true;
    goes(&y, 1, BY_KERNEL, "where no link can be made, a blob goes by way of the kernel");
    for (unsigned s = 0; s < 40; s++, y.now_ns += 2 * NS_PER_S)
        tried += goes(&y, 2 + s, BY_KERNEL, NULL);
    is_int(tried, 3, "the link is tried anew after 10, 30 and 70 s");
    for (unsigned s = 0; s <= 120; s++, y.now_ns += 30 * NS_PER_S)
        tried += goes(&y, 100 + s, BY_KERNEL, NULL);
    is_int(tried, 3 + 8, "and at last each 10 minutes");
    y.node[2].refuses_dial = false;
    yard_reset(&y, 2);
    yard_run(&y, ENOUGH);
    goes(&y, 5000, BY_LINK, "when the receiver has resumed, it is tried at once");
    yard_release(&y);
}

/* The cable of a receiver is pulled in the midst: what is left goes over the new link. */
static void a_link_that_heals_takes_over(void)
{
    const uint64_t size = 3 * (uint64_t)LONGER;
    struct yard y;
    unsigned before;

    begin_chain(&y, size);
    yard_cut(&y, 1, 2);
    while (yard_waits(&y, 1, 1) && yard_run(&y, 1))
        ;
    ok(!yard_has(&y, 2, 1, size), "a blob is on its way through the kernel");
    before = y.chunks[1][2];
    yard_reset(&y, 2);
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 1, 3, 1, size) && y.chunks[1][2] > before,
       "when the receiver has resumed, the rest goes over their link");
    yard_release(&y);
}

/* What the sender says late about a link that has ended says nothing about the one after it. */
static void a_late_end(void)
{
    struct span late = { .kind = SPAN_OPENED,
                         .blob = 1,
                         .blob_size = LONGER,
                         .v[F_OPENED_NODE].u64 = 2,
                         .v[F_OPENED_ERROR].s = slice_text("it does not answer") };
    struct yard y;

    begin_chain(&y, LONGER);
    yard_cut(&y, 1, 2);
    yard_run(&y, ENOUGH);
    yard_reset(&y, 1);
    ok(blob_schedule_message(y.schedule, 1, &late), "a link's end is told again");
    yard_run(&y, ENOUGH);
    goes(&y, 2, BY_LINK, "the new link is made all the same");
    ok(blob_schedule_message(y.schedule, 1, &late), "its end is told once more");
    goes(&y, 3, BY_LINK, "and stays");
    yard_release(&y);
}

int main(void)
{
    a_link_goes_dead(false);
    a_link_goes_dead(true);
    a_link_stays_bad();
    a_link_that_heals_takes_over();
    a_late_end();
    return plan_done();
}
