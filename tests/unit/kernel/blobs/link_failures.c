/* SPDX-License-Identifier: BSD-3-Clause */
/* Links between nodes that end, go silent, or can't be made, and are tried anew. */
#include "tests/unit/kernel/blobs/yard.h"

#include "protocol/span_fields.h"
#include "tests/unit/tap.h"

#define BIG    ((3u << 20) + 77)
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
static void begin_chain(struct yard *y)
{
    yard_init(y, 4, 10);
    yard_put(y, 0, 1, LONGER);
    yard_need(y, 1, LONGER, 1, 3);
    for (unsigned i = 0; i < 500 && y->peer_chunks < 5; i++)
        yard_run(y, 1);
}

/* How often a link is opened while another large blob goes from node 1 to node 2: over their link,
 * or not. */
static unsigned goes(struct yard *y, uint64_t blob, bool linked, const char *what)
{
    const unsigned opens = y->opens[1][2], chunks = y->chunks[1][2];

    yard_put(y, 1, blob, BIG);
    yard_need(y, blob, BIG, 2, 3);
    yard_run(y, ENOUGH);
    if (what)
        ok(all_have(y, 2, 3, blob, BIG) && (y->chunks[1][2] > chunks) == linked, "%s", what);
    blob_schedule_drop(y->schedule, blob);
    yard_run(y, ENOUGH);
    return y->opens[1][2] - opens;
}

static void a_link_goes_dead(bool silently)
{
    struct yard y;

    begin_chain(&y);
    if (silently)
        y.node[1].is_mute = true;
    else
        yard_cut(&y, 1, 2);
    yard_run(&y, ENOUGH);
    if (silently) {
        ok(yard_waits(&y, 2, 1) && yard_waits(&y, 3, 1),
           "what is lost on a link is not noticed by anybody at first");
        transfers_check(y.node[1].carrier, 10 * NS_PER_S);
        is_int(yard_run(&y, ENOUGH), 0, "nor before its time");
        y.now_ns += 11 * NS_PER_S;
        transfers_check(y.node[1].carrier, 10 * NS_PER_S);
        yard_run(&y, ENOUGH);
    }
    ok(all_have(&y, 1, 3, 1, LONGER), "a link that %s is replaced by way of the kernel",
       silently ? "goes silent" : "ends");
    y.node[1].is_mute = false;
    goes(&y, 2, false, "the next blob goes by way of the kernel, too");
    y.now_ns += 11 * NS_PER_S;
    is_int(goes(&y, 3, false, "later one does not wait for the link"), 1, "which is tried anew");
    is_int(goes(&y, 4, true, "and takes the blob after that"), 0, "as it is");
    yard_release(&y);
}

/* One that can't be made is tried seldom: at first after 10 s, then after 20, and so on. */
static void a_link_stays_bad(void)
{
    struct yard y;
    unsigned tried = 0;

    yard_init(&y, 4, 10);
    y.node[2].refuses_dial = true;
    goes(&y, 1, false, "where no link can be made, a blob goes by way of the kernel");
    for (unsigned s = 0; s < 80; s++, y.now_ns += NS_PER_S)
        tried += goes(&y, 2 + s, false, NULL);
    is_int(tried, 3, "the link is tried anew after 10, 30 and 70 s");
    for (unsigned s = 0; s < 3600; s++, y.now_ns += NS_PER_S)
        tried += goes(&y, 100 + s, false, NULL);
    is_int(tried, 3 + 8, "and at last each 10 minutes");
    y.node[2].refuses_dial = false;
    yard_reset(&y, 2);
    yard_run(&y, ENOUGH);
    goes(&y, 5000, true, "when the receiver has resumed, it is tried at once");
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

    begin_chain(&y);
    yard_cut(&y, 1, 2);
    yard_run(&y, ENOUGH);
    yard_reset(&y, 1);
    ok(blob_schedule_message(y.schedule, 1, &late), "a link's end is told again");
    yard_run(&y, ENOUGH);
    goes(&y, 2, true, "the new link is made all the same");
    ok(blob_schedule_message(y.schedule, 1, &late), "its end is told once more");
    goes(&y, 3, true, "and stays");
    yard_release(&y);
}

int main(void)
{
    a_link_goes_dead(false);
    a_link_goes_dead(true);
    a_link_stays_bad();
    a_late_end();
    return plan_done();
}
