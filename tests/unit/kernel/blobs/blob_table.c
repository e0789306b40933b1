/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's table of blobs when memory is out: a failed call changes nothing. */
#include "kernel/blobs/blob_schedule.h"
#include "kernel/blobs/blob_route.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static void count_messages(void *arg, const unsigned *nodes, size_t n, const struct span *m)
{
    (void)nodes;
    (void)n;
    (void)m;
    ++*(unsigned *)arg;
}

static bool no_peer(void *arg, unsigned node, struct blob_peer *out)
{
    (void)arg;
    (void)node;
    (void)out;
    return false;
}

static bool arrive_and_need(long nth, bool *failed)
{
    static const unsigned nodes[] = { 1, 2, 3, 4, 5, 6, 7 };
    unsigned sent = 0;
    const struct blob_schedule_ops ops = {
        .send = count_messages, .peer = no_peer, .clock = &clock_system, .arg = &sent
    };
    struct err err = { "" };
    struct blob_schedule *c;
    bool arrived, good;

    alloc_fail_at(nth);
    c = blob_schedule_create(&ops, &err);
    arrived = c && blob_schedule_arrived(c, 3, 1000, 0, &err) == 0;
    if (arrived && blob_schedule_need(c, 3, 1000, nodes, 7, &err) == 0)
        good = sent == 2 && !err.text[0];
    else
        good = sent == 0 && err.text[0];
    *failed = alloc_failed();
    alloc_fail_at(-1);
    if (c && err.text[0]) { /* what failed works when it is tried again */
        arrived = arrived || blob_schedule_arrived(c, 3, 1000, 0, &err) == 0;
        good = good && arrived && blob_schedule_need(c, 3, 1000, nodes, 7, &err) == 0 && sent == 2;
        blob_schedule_drop(c, 3);
    }
    blob_schedule_destroy(c);
    return good;
}

static void any_allocation_fails(void)
{
    bool failed = true, good = true;
    long nth = 0;

    for (; failed && nth < 100; nth++)
        good = arrive_and_need(nth, &failed) && good;
    ok(good && nth > 3, "each of %ld allocations fails: an error, and nothing was sent", nth - 1);
}

static void many_blobs_are_found(void)
{
    struct blob_table t = BLOB_TABLE_INIT;
    bool good = true;

    for (uint64_t i = 0; i < 500; i++)
        good = good && blob_table_add(&t, i * 37 % 501, i) != NULL;
    for (uint64_t i = 0; i < 500; i++)
        good = good && blob_table_get(&t, i * 37 % 501) &&
               blob_table_get(&t, i * 37 % 501)->size == i;
    ok(good && !blob_table_get(&t, 1000) && t.n == 500, "each of five hundred");
    for (unsigned i = 0; i < 100; i++)
        good = good && blob_entry_add(blob_table_get(&t, 37), i * 7 % 101) != NULL;
    ok(good && blob_entry_at(blob_table_get(&t, 37), 7) &&
           !blob_entry_at(blob_table_get(&t, 37), 200),
       "each of a hundred replicas");
    blob_entry_remove(blob_table_get(&t, 37), blob_entry_at(blob_table_get(&t, 37), 7));
    ok(!blob_entry_at(blob_table_get(&t, 37), 7) && blob_entry_at(blob_table_get(&t, 37), 14),
       "one is taken away");
    blob_table_remove(&t, blob_table_get(&t, 37));
    ok(!blob_table_get(&t, 37) && t.n == 499, "and so is a blob");
    blob_table_release(&t);
}

int main(void)
{
    any_allocation_fails();
    many_blobs_are_found();
    return plan_done();
}
