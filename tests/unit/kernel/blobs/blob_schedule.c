/* SPDX-License-Identifier: BSD-3-Clause */
/* Blobs between nodes: the kernel's schedule together with the agents' transfers, in every order of
 * messages and failures. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/blob.h"
#include "kernel/blobs/direct_links.h"
#include "protocol/span_fields.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/kernel/blobs/yard.h"
#include "tests/unit/tap.h"

#define SMALL  5000u
#define BIG    ((3u << 20) + 77)
#define LONGER ((uint32_t)SPAN_CHUNK_WINDOW + (2u << 20) - 1) /* than a window */
#define ENOUGH 1000000u

static bool all_have(const struct yard *y, unsigned first, unsigned last, uint64_t blob,
                     uint64_t size)
{
    while (first <= last) {
        if (y->node[first].alive && !yard_has(y, first, blob, size))
            return false;
        first++;
    }
    return true;
}

static bool somebody_has(const struct yard *y, uint64_t blob, uint64_t size)
{
    for (unsigned i = 0; i < y->n; i++)
        if (y->node[i].alive && yard_has(y, i, blob, size))
            return true;
    return false;
}

static bool nobody_waits(const struct yard *y, uint64_t blob)
{
    for (unsigned i = 0; i < y->n; i++)
        if (y->node[i].alive && yard_waits(y, i, blob))
            return false;
    return true;
}

static void small_ones_go_in_one_stream(void)
{
    struct yard y;

    yard_init(&y, 50, 1);
    yard_put(&y, 0, 7, SMALL);
    yard_need(&y, 7, SMALL, 0, 49);
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 0, 49, 7, SMALL), "a small blob gets to 49 nodes");
    is_int(y.k_chunks, 1, "as one message of the kernel's");
    is_int(y.ships, 1, "that the sender sent once");
    yard_need(&y, 7, SMALL, 0, 49);
    is_int(yard_run(&y, ENOUGH), 0, "who has it gets nothing more");
    blob_schedule_drop(y.schedule, 7);
    yard_run(&y, ENOUGH);
    ok(yard_forgot(&y, 7, SMALL) && y.drops == 1 && y.node[0].blobs.n == 0 &&
           y.node[49].blobs.n == 0,
       "and is dropped everywhere by one message");
    yard_release(&y);
}

static void one_node_gets_it_by_way_of_the_kernel(void)
{
    struct yard y;

    yard_init(&y, 3, 2);
    yard_put(&y, 2, 9, LONGER);
    yard_need(&y, 9, LONGER, 0, 0);
    yard_run(&y, ENOUGH);
    ok(yard_has(&y, 0, 9, LONGER), "a result comes home");
    ok(y.queue[YARD_K][0].most < SPAN_CHUNK_WINDOW + 65536 &&
           y.queue[2][YARD_K].most < SPAN_CHUNK_WINDOW + 65536,
       "the kernel holds a window of it at most (%zu and %zu bytes)", y.queue[YARD_K][0].most,
       y.queue[2][YARD_K].most);
    is_int(y.peer_chunks, 0, "no link was made for it");
    yard_release(&y);
}

/* The connection of the sender, or of the receiver, is reset in the midst of a blob. */
static void a_connection_is_reset(unsigned from, unsigned to, unsigned last, unsigned which)
{
    unsigned resets = 0;
    struct yard y;

    for (unsigned seed = 4; seed < 6; seed++) { /* odd: node 0 lends its blobs */
        yard_init(&y, 4, seed);
        yard_put(&y, from, 9, LONGER);
        yard_need(&y, 9, LONGER, to, last);
        for (unsigned i = 0; i < 60 && yard_run(&y, 3); i++, resets++)
            yard_reset(&y, which);
        yard_run(&y, ENOUGH);
        ok(all_have(&y, to, last, 9, LONGER) && !yard_waits(&y, to, 9),
           "from %u to %u-%u: %u is reset, in all %u times, and all is there", from, to, last,
           which, resets);
        yard_release(&y);
    }
}

static void large_ones_go_along_a_chain(void)
{
    const unsigned chunks = (LONGER + TRANSFERS_CHUNK - 1) / TRANSFERS_CHUNK;
    struct yard y;

    yard_init(&y, 5, 3);
    yard_put(&y, 0, 1, LONGER);
    yard_need(&y, 1, LONGER, 0, 4);
    ok(!yard_waits(&y, 1, 1) && y.busy, "it begins to move");
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 0, 4, 1, LONGER), "a large blob gets to four nodes");
    is_int(y.k_chunks, chunks, "the kernel sends it once");
    is_int(y.local_chunks, chunks, "and gives it itself, for its own machine lends it");
    is_int(y.peer_chunks, 3 * chunks, "and each link between nodes carries it once");
    yard_put(&y, 0, 2, BIG);
    y.k_chunks = 0;
    yard_need(&y, 2, BIG, 1, 4);
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 0, 4, 2, BIG) && y.k_chunks == (BIG + TRANSFERS_CHUNK - 1) / TRANSFERS_CHUNK,
       "the links are used again");
    yard_put(&y, 2, 3, BIG);
    y.k_chunks = 0;
    yard_need(&y, 3, BIG, 3, 3);
    yard_run(&y, ENOUGH);
    ok(yard_has(&y, 3, 3, BIG) && y.k_chunks == 0, "also for one node alone");
    yard_release(&y);
}

static void how_far_it_is(void)
{
    uint64_t had = 1, whole = 1;
    struct yard y;

    yard_init(&y, 4, 3);
    yard_put(&y, 0, 7, SMALL);
    yard_need(&y, 7, SMALL, 1, 3);
    ok(blob_schedule_expected(y.schedule, 1, &had, &whole) == 0 && had == 0,
       "a small one is not worth a word");
    yard_put(&y, 0, 1, LONGER);
    yard_need(&y, 1, LONGER, 1, 3);
    ok(blob_schedule_expected(y.schedule, 1, &had, &whole) == LONGER && had == 0,
       "a large one is expected");
    ok(blob_schedule_expected(y.schedule, 0, &had, &whole) == 0 &&
           blob_schedule_expected(y.schedule, 77, &had, &whole) == 0,
       "where it is to go");
    while (blob_schedule_expected(y.schedule, 1, &had, &whole) && had < LONGER / 2)
        if (!yard_run(&y, 1))
            break;
    ok(had >= LONGER / 2 && had < LONGER, "half of it has come");
    ok(blob_schedule_expected(y.schedule, 3, &had, &whole) == LONGER && had >= LONGER / 2 &&
           had < LONGER,
       "and is soon there at the end of the chain");
    yard_put(&y, 2, 3, BIG);
    yard_need(&y, 3, BIG, 3, 3);
    ok(blob_schedule_expected(y.schedule, 3, &had, &whole) == LONGER + BIG && had == UINT64_MAX,
       "of what passes by other ways nobody knows");
    while (blob_schedule_expected(y.schedule, 1, &had, &whole))
        if (!yard_run(&y, 1))
            break;
    ok(whole == LONGER && blob_schedule_expected(y.schedule, 3, &had, &whole) && whole == 0,
       "what has come whole is told while others wait for it");
    (void)blob_schedule_expected(y.schedule, 0, &had, &whole);
    ok(whole == 0, "but not of the node that sends it");
    yard_run(&y, ENOUGH);
    ok(blob_schedule_expected(y.schedule, 1, &had, &whole) == 0 &&
           blob_schedule_expected(y.schedule, 3, &had, &whole) == 0 && had == 0,
       "at the end nothing is");
    yard_release(&y);
}

static void a_link_that_cannot_be_made(void)
{
    struct yard y;

    yard_init(&y, 6, 4);
    y.node[1].refuses_open = true;
    y.node[4].refuses_dial = true;
    yard_put(&y, 0, 1, BIG);
    yard_need(&y, 1, BIG, 1, 5);
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 1, 5, 1, BIG), "nodes without a link get it by way of the kernel");
    yard_put(&y, 0, 2, BIG);
    yard_need(&y, 2, BIG, 1, 5);
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 1, 5, 2, BIG), "and again");
    yard_release(&y);
}

/* The chain 0-K-1-2-3-4 is under way when node `dead` goes. */
static void somebody_dies(unsigned dead, unsigned after)
{
    struct yard y;

    yard_init(&y, 5, after + 7);
    yard_put(&y, 0, 1, LONGER);
    yard_need(&y, 1, LONGER, 1, 4);
    yard_run(&y, after);
    yard_kill(&y, dead);
    yard_run(&y, ENOUGH);
    if (dead)
        ok(all_have(&y, 1, 4, 1, LONGER), "node %u dies after %u messages: the others get it", dead,
           after);
    else
        ok(nobody_waits(&y, 1) &&
               (all_have(&y, 1, 4, 1, LONGER) || yard_forgot(&y, 1, LONGER) || after > 100),
           "the source dies after %u messages: nobody waits", after);
    blob_schedule_drop(y.schedule, 1);
    yard_run(&y, ENOUGH);
    ok(yard_forgot(&y, 1, LONGER), "and it is forgotten");
    yard_release(&y);
}

static void deaths(void)
{
    for (unsigned dead = 0; dead < 5; dead++)
        for (unsigned after = 0; after < 120; after += 29)
            somebody_dies(dead, after);
}

static void no_room_on_a_node(void)
{
    struct yard y;

    yard_init(&y, 5, 5);
    y.node[2].space = 1u << 20;
    yard_put(&y, 0, 1, BIG);
    yard_need(&y, 1, BIG, 1, 4);
    yard_run(&y, ENOUGH);
    ok(yard_has(&y, 1, 1, BIG) && all_have(&y, 3, 4, 1, BIG),
       "the nodes behind it get it all the same");
    ok(y.node[2].failed == 1 && !yard_waits(&y, 2, 1), "what waits there is let go");
    is_text(
        y.node[2].why,
        "node has no room for 4 MiB: 1 MiB are free (memory); free memory there, send less, or choose a node "
        "with more",
        "with a reason");
    blob_schedule_drop(y.schedule, 1);
    yard_run(&y, ENOUGH);
    ok(yard_forgot(&y, 1, BIG) && y.node[4].blobs.n == 0, "and the blob is dropped where it is");
    yard_release(&y);
}

static void a_blob_that_its_holder_lost(void)
{
    struct yard y;

    yard_init(&y, 3, 6);
    yard_put(&y, 1, 1, SMALL);
    blobs_drop(&y.node[1].blobs, 1);
    yard_need(&y, 1, SMALL, 0, 2);
    yard_run(&y, ENOUGH);
    ok(nobody_waits(&y, 1) && y.node[2].failed == 1 && yard_forgot(&y, 1, SMALL),
       "nobody waits for what is nowhere");
    yard_need(&y, 1, SMALL, 2, 2);
    is_int(yard_run(&y, ENOUGH), 0, "and what nobody has is not asked for");
    yard_release(&y);
}

static void drop_while_it_is_on_its_way(void)
{
    struct yard y;

    yard_init(&y, 4, 8);
    yard_put(&y, 0, 1, BIG);
    yard_need(&y, 1, BIG, 1, 3);
    yard_run(&y, 20);
    blob_schedule_drop(y.schedule, 1);
    is_int(y.drops, 0, "DROP waits until those that expect it have it");
    yard_run(&y, ENOUGH);
    ok(y.node[3].settled == 1 && y.node[3].failed == 0, "who waits for it gets it");
    ok(yard_forgot(&y, 1, BIG) && y.drops == 1 && y.node[3].blobs.n == 0,
       "then it is dropped everywhere");
    yard_release(&y);
}

static void nobody_waits_for_what_cannot_be_told(void)
{
    struct yard y;

    yard_init(&y, 4, 3);
    yard_put(&y, 0, 1, LONGER);
    yard_put(&y, 0, 2, SMALL);
    yard_need(&y, 1, LONGER, 1, 3);
    yard_run(&y, 20);
    ok(yard_waits(&y, 2, 1) && y.busy, "a blob is on its way");
    blob_schedule_stop(y.schedule);
    ok(!y.busy && yard_forgot(&y, 1, LONGER), "the kernel stops it");
    yard_run(&y, ENOUGH);
    ok(nobody_waits(&y, 1) && y.node[3].failed == 1 && y.local_blobs.n_receivers == 0,
       "those that waited are told");
    yard_need(&y, 2, SMALL, 1, 3);
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 1, 3, 2, SMALL), "and another one comes");
    yard_release(&y);
}

static void cancelled_while_it_is_on_its_way(void)
{
    struct yard y;

    yard_init(&y, 4, 3);
    yard_put(&y, 0, 1, LONGER);
    yard_need(&y, 1, LONGER, 1, 3);
    while (!yard_waits(&y, 3, 1) && yard_run(&y, 1))
        ;
    ok(y.busy && yard_waits(&y, 3, 1), "the last of three nodes waits for it");
    blob_schedule_cancel(y.schedule, 1);
    ok(!y.busy && yard_forgot(&y, 1, LONGER), "it is forgotten at once");
    y.k_chunks = 0;
    yard_run(&y, ENOUGH);
    ok(!yard_waits(&y, 1, 1) && !yard_waits(&y, 2, 1) && !yard_waits(&y, 3, 1),
       "and nobody waits any more");
    is_int(y.k_chunks, 0, "for what does not come");
    ok(y.node[0].blobs.n == 0 && y.node[1].blobs.n == 0, "nor has it");
    blob_schedule_cancel(y.schedule, 1);
    yard_release(&y);
}

static void needed_again_while_it_moves(void)
{
    struct yard y;

    yard_init(&y, 12, 9);
    yard_put(&y, 0, 1, SMALL);
    yard_need(&y, 1, SMALL, 1, 5);
    yard_run(&y, 3);
    yard_need(&y, 1, SMALL, 1, 8);
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 1, 8, 1, SMALL), "more nodes need a small blob while it is on its way");
    yard_put(&y, 0, 2, BIG);
    yard_need(&y, 2, BIG, 1, 3);
    yard_run(&y, 30);
    yard_need(&y, 2, BIG, 2, 8);
    yard_run(&y, 10);
    yard_need(&y, 2, BIG, 9, 9);
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 1, 9, 2, BIG), "and a large one");
    yard_release(&y);
}

/* Nodes that need it one after the other make one chain, in whatever order messages come. */
static void needed_later(unsigned after, unsigned dead)
{
    struct yard y;

    yard_init(&y, 9, after + dead);
    yard_put(&y, 0, 1, BIG);
    for (unsigned node = 1; node <= 4; node++) {
        yard_need(&y, 1, BIG, node, node);
        yard_run(&y, after);
    }
    if (dead)
        yard_kill(&y, dead);
    yard_need(&y, 1, BIG, 5, 7);
    yard_run(&y, ENOUGH);
    yard_need(&y, 1, BIG, 8, 8);
    yard_run(&y, ENOUGH);
    ok(all_have(&y, 1, 8, 1, BIG), "eight nodes need it %u messages apart, %u dies", after, dead);
    if (!dead)
        is_int(y.k_chunks, (BIG + TRANSFERS_CHUNK - 1) / TRANSFERS_CHUNK,
               "the kernel sends it once");
    yard_put(&y, 2, 2, BIG);
    yard_need(&y, 2, BIG, 0, 0);
    yard_run(&y, ENOUGH);
    yard_need(&y, 2, BIG, 6, 6);
    yard_run(&y, ENOUGH);
    ok(yard_has(&y, 6, 2, BIG), "what has come home goes to another node");
    blob_schedule_drop(y.schedule, 1);
    yard_run(&y, ENOUGH);
    ok(yard_forgot(&y, 1, BIG), "and all is forgotten");
    yard_release(&y);
}

/* Nodes die, links end, memory is short, in any order: whoever is left has it or knows that it
 * won't come. */
static bool mishaps(uint64_t seed)
{
    const uint64_t size = seed % 3 ? BIG : SMALL;
    struct yard y;
    bool good;

    yard_init(&y, 9, seed);
    yard_put(&y, (unsigned)(seed % 2), 1, size);
    for (unsigned i = 2; i < 9; i++) {
        y.node[i].refuses_open = (seed >> i) % 5 == 0;
        y.node[i].refuses_dial = (seed >> (i + 1)) % 7 == 0;
        y.node[i].space = (seed >> (i + 2)) % 6 == 0 ? 100 : UINT64_MAX;
    }
    yard_need(&y, 1, size, 2, 6);
    for (unsigned i = 0; i < 6; i++) {
        const unsigned who = 1 + (unsigned)(seed * (i + 3) % 8),
                       other = 1 + (unsigned)(seed * (i + 5) / 3 % 8);

        yard_run(&y, (unsigned)(seed * (i + 7) % 60));
        if (i % 3 == 2 && y.node[who].alive)
            yard_kill(&y, who);
        else if (i == 4)
            yard_need(&y, 1, size, 0, 8);
        else if (who != other)
            yard_cut(&y, who, other);
    }
    if (seed % 2)
        blob_schedule_drop(y.schedule, 1);
    yard_run(&y, ENOUGH);
    good = nobody_waits(&y, 1);
    for (unsigned i = 2; i <= 6; i++)
        if (!(seed % 2) && somebody_has(&y, 1, size) && y.node[i].alive && !y.node[i].failed)
            good = good && yard_has(&y, i, 1, size);
    blob_schedule_drop(y.schedule, 1);
    yard_run(&y, ENOUGH);
    good = good && yard_forgot(&y, 1, size) && !y.busy && !y.wrong;
    for (unsigned i = 0; i < 9; i++)
        good = good && (!y.node[i].alive ||
                        (y.node[i].blobs.n == 0 && transfers_is_idle(y.node[i].carrier)));
    yard_release(&y);
    return good;
}

static void any_mishap(void)
{
    const unsigned files = open_descriptors();
    uint64_t bad = 0;

    for (uint64_t seed = 1; seed <= 150 && !bad; seed++)
        bad = mishaps(seed * 7919) ? 0 : seed;
    is_int(
        bad, 0,
        "150 rounds of mishaps: whoever is left has it, or knows that it won't come, and nothing is left over");
    is_int(open_descriptors(), files, "no descriptor is left");
}

static void what_is_not_about_blobs(void)
{
    struct span m = { .kind = SPAN_DIALED, .v[F_DIALED_NODE].u64 = 1 };
    unsigned messages;
    struct yard y;

    yard_init(&y, 3, 11);
    ok(!blob_schedule_message(y.schedule, 2, &m),
       "DIALED of a link that the kernel did not ask for");
    m = (struct span){ .kind = SPAN_OPENED, .v[F_OPENED_NODE].u64 = 1 };
    ok(!blob_schedule_message(y.schedule, 2, &m), "OPENED likewise");
    m = (struct span){ .kind = SPAN_STORED, .blob = 99, .blob_size = 5 };
    ok(blob_schedule_message(y.schedule, 2, &m) && yard_forgot(&y, 99, 5),
       "STORED of a blob that nobody knows");
    m = (struct span){ .kind = SPAN_CHUNK, .blob = 99, .blob_size = 5, .v[F_CHUNK_TO].u64 = 1 };
    ok(blob_schedule_message(y.schedule, 2, &m) && y.k_chunks == 0, "a CHUNK of one goes nowhere");
    yard_put(&y, 1, 5, SMALL);
    yard_need(&y, 5, SMALL, 2, 2);
    m = (struct span){ .kind = SPAN_CHUNK, .blob = 5, .blob_size = SMALL, .v[F_CHUNK_TO].u64 = 2 };
    ok(blob_schedule_message(y.schedule, 0, &m) && y.k_chunks == 0,
       "nor does one of a node that is not its sender");
    yard_run(&y, ENOUGH);
    ok(yard_has(&y, 2, 5, SMALL), "its sender sends it");
    messages = y.k_messages;
    for (unsigned i = 0; i < 10; i++)
        (void)blob_schedule_message(y.schedule, 0, &m);
    is_int(y.k_messages, messages, "who did not send it gets no answer either");
    yard_release(&y);
}

static void endpoints(void)
{
    struct buf out = BUF_INIT;

    ok(direct_link_endpoints(slice_text("eth0=10.0.0.1,,ib0=fd00::1,10.2.0.1"), 77, &out) == 0,
       "HELLO's addresses");
    is_text(out.p, "tcp://10.0.0.1:77,tcp://[fd00::1]:77,tcp://10.2.0.1:77", "become endpoints");
    buf_release(&out);
}

int main(void)
{
    small_ones_go_in_one_stream();
    one_node_gets_it_by_way_of_the_kernel();
    a_connection_is_reset(2, 0, 0, 2);
    a_connection_is_reset(0, 1, 1, 1);
    a_connection_is_reset(2, 0, 3, 2);
    a_connection_is_reset(0, 1, 3, 1);
    large_ones_go_along_a_chain();
    how_far_it_is();
    a_link_that_cannot_be_made();
    deaths();
    no_room_on_a_node();
    a_blob_that_its_holder_lost();
    drop_while_it_is_on_its_way();
    nobody_waits_for_what_cannot_be_told();
    cancelled_while_it_is_on_its_way();
    needed_again_while_it_moves();
    for (unsigned after = 0; after < 40; after += 13) {
        needed_later(after, 0);
        needed_later(after, 1);
        needed_later(after, 3);
        needed_later(after, 4);
    }
    any_mishap();
    what_is_not_about_blobs();
    endpoints();
    return plan_done();
}
