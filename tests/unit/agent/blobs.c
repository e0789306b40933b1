/* SPDX-License-Identifier: BSD-3-Clause */
/* Real agents and the blobs between them: messages that wait for a blob, messages that don't, and a
 * chain of three agents over tcp. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "protocol/span_fields.h"
#include "tests/unit/agent/double.h"
#include "tests/unit/agent/fake.h"
#include "tests/unit/agent/lan.h"
#include "tests/unit/tap.h"

#define ALL    0xffffffffu
#define LONGER (2 * SPAN_CHUNK_WINDOW)
#define CHUNK  (512u << 10) /* of those that the kernel sends here */

static struct span about(enum span_kind kind, uint64_t blob, uint64_t size)
{
    return (struct span){ .kind = kind, .blob = blob, .blob_size = size };
}

static void expect(struct kernel *k, uint64_t blob, uint64_t size, uint64_t from)
{
    struct span m = about(SPAN_EXPECT, blob, size);

    m.v[F_EXPECT_FROM].u64 = from;
    kernel_send(k, NULL, 0, &m);
}

static struct span chunk_of(const char *bytes, uint64_t blob, uint64_t size, uint64_t offset)
{
    struct span m = about(SPAN_CHUNK, blob, size);
    const uint64_t left = size - offset;

    m.v[F_CHUNK_TO].u64 = ALL;
    m.v[F_CHUNK_OFFSET].u64 = offset;
    m.v[F_CHUNK_DATA].s = slice_of(bytes + offset, (size_t)(left < CHUNK ? left : CHUNK));
    return m;
}

static void bind_to(struct kernel *k, uint32_t worker, uint64_t cell, uint64_t blob, uint64_t size)
{
    struct span m = about(SPAN_BIND, blob, size);

    m.cell = cell;
    kernel_send(k, &worker, 1, &m);
}

static void messages_wait_for_their_blob(struct kernel *k, const char *bytes)
{
    struct span m, port = { .kind = SPAN_PORT };

    expect(k, 50, 600000, ALL);
    kernel_forget(k);
    bind_to(k, 1, 8, 50, 600000);
    kernel_run(k, 1, 9, "out later");
    kernel_send(k, NULL, 0, &port);
    ok(kernel_until(k, SPAN_PORT, 0) && !kernel_told(k, "1<"),
       "what rides on a blob waits for it; the agent does not");
    m = chunk_of(bytes, 50, 600000, 0);
    kernel_send(k, NULL, 0, &m);
    ok(kernel_until(k, SPAN_CHUNK_ACK, 0) && k->last.v[F_CHUNK_ACK_BYTES].u64 == CHUNK &&
           k->last.v[F_CHUNK_ACK_TO].u64 == ALL,
       "a chunk is answered");
    m = chunk_of(bytes, 50, 600000, CHUNK);
    kernel_send(k, NULL, 0, &m);
    ok(kernel_until(k, SPAN_CHUNK_ACK, 0) && k->last.v[F_CHUNK_ACK_BYTES].u64 == 600000,
       "and the last one");
    ok(kernel_until(k, SPAN_STORED, 0) && k->last.v[F_STORED_ERROR].s.n == 0, "then all is stored");
    ok(kernel_until(k, SPAN_REPLY, 1) && kernel_told(k, "1<blob 50 of 600000: bbbbbbbb"),
       "the bytes arrive");
    ok(kernel_told(k, "later"), "and what stood behind them");
    expect(k, 50, 600000, 3);
    ok(kernel_until(k, SPAN_STORED, 0) && k->last.v[F_STORED_ERROR].s.n == 0,
       "what is there is not expected");
}

#define ATTEMPTS 10
#define CHUNK_MS 3000

/* Has blob 7 shipped, and answers. false: not so many chunks came. Each answer that is quick lets
 * more go: 2, 4, and 8 MiB. */
static bool chunks_come(struct kernel *k, const struct span *ship, struct span *ack)
{
    const uint64_t left[] = { 2, 5, 11 }, had[] = { 1, 3, 0 };
    uint64_t next = 0;
    bool good = true;

    kernel_send(k, NULL, 0, ship);
    for (int round = 0; round < 3; round++) {
        for (; next < left[round] * SPAN_CHUNK_MAX && good; next += SPAN_CHUNK_MAX)
            good = kernel_within(k, SPAN_CHUNK, 0, CHUNK_MS) &&
                   k->last.v[F_CHUNK_OFFSET].u64 == next &&
                   k->last.v[F_CHUNK_DATA].s.n == SPAN_CHUNK_MAX &&
                   k->last.v[F_CHUNK_DATA].s.p[77] == 'b';
        ack->v[F_CHUNK_ACK_BYTES].u64 = had[round] * SPAN_CHUNK_MAX;
        if (round < 2)
            kernel_send(k, NULL, 0, ack);
    }
    return good;
}

/* On a busy machine an answer may not be quick. Then the blob is shipped once more. */
static void a_window_and_no_more(struct kernel *k)
{
    struct span ship = about(SPAN_SHIP, 7, LONGER), ack = about(SPAN_CHUNK_ACK, 7, LONGER);
    char line[32];
    bool good = false;

    snprintf(line, sizeof line, "blob %" PRIu64, LONGER);
    kernel_run(k, 1, 7, line);
    (void)kernel_until(k, SPAN_REPLY, 1);
    ship.v[F_SHIP_TO].u64 = ack.v[F_CHUNK_ACK_TO].u64 = ALL;
    ship.v[F_SHIP_THROUGH].u64 = 1;
    for (int n = 0; n < ATTEMPTS && !(good = chunks_come(k, &ship, &ack)); n++) {
        ack.v[F_CHUNK_ACK_BYTES].u64 = LONGER;
        kernel_send(k, NULL, 0, &ack);
        kernel_listen(k, 200);
    }
    ok(good, "a blob leaves in chunks, in order");
    kernel_forget(k);
    kernel_listen(k, 200);
    ok(!kernel_told(k, "CHUNK"), "a window at most without an answer");
    /* the receiver has more than was sent: from somebody else */
    ack.v[F_CHUNK_ACK_BYTES].u64 = LONGER - SPAN_CHUNK_MAX;
    kernel_send(k, NULL, 0, &ack);
    ok(kernel_until(k, SPAN_CHUNK, 0) && k->last.v[F_CHUNK_OFFSET].u64 == LONGER - SPAN_CHUNK_MAX,
       "what the receiver has is left out");
    ack.v[F_CHUNK_ACK_BYTES].u64 = LONGER;
    kernel_send(k, NULL, 0, &ack);
    ship.blob = 999;
    kernel_send(k, NULL, 0, &ship);
    ok(kernel_until(k, SPAN_STORED, 0) && k->last.blob == 999 && k->last.v[F_STORED_ERROR].s.n > 0,
       "what is not there is not shipped");
}

static void a_blob_that_does_not_come(struct kernel *k)
{
    const uint64_t number = 51;
    struct span drop = { .kind = SPAN_DROP };

    expect(k, 51, 600000, 2);
    ok(kernel_until(k, SPAN_CHUNK_ACK, 0) && k->last.v[F_CHUNK_ACK_BYTES].u64 == 0,
       "a sender on a link is to wait until we are ready");
    bind_to(k, 1, 8, 51, 600000);
    drop.v[F_DROP_BLOBS].s = slice_of(&number, 8);
    kernel_forget(k);
    kernel_send(k, NULL, 0, &drop);
    ok(kernel_until(k, SPAN_LINES, 1) && kernel_told(k, "blob 51 of 0: "),
       "after DROP the message comes without");
    expect(k, 52, UINT64_C(1) << 52, ALL);
    ok(kernel_until(k, SPAN_STORED, 0) &&
           memmem(k->last.v[F_STORED_ERROR].s.p, k->last.v[F_STORED_ERROR].s.n, "has no room for",
                  15),
       "what does not fit is refused");
    kernel_forget(k);
    bind_to(k, 1, 8, 52, UINT64_C(1) << 52);
    ok(kernel_until(k, SPAN_LINES, 1) && kernel_told(k, "blob 52 of 0: "),
       "and its message comes without");
}

static void an_interrupt_while_a_cell_waits(struct kernel *k, const char *self, const char *bytes)
{
    const uint32_t rank = 2;
    struct span m = { .kind = SPAN_INTERRUPT, .cell = 30 }, fetch = { .kind = SPAN_FETCH };

    kernel_ranks(k, self, 1);
    expect(k, 60, 1000, ALL);
    bind_to(k, rank, 30, 60, 1000);
    kernel_run(k, rank, 30, "out wrong");
    kernel_forget(k);
    kernel_send(k, &rank, 1, &m);
    ok(kernel_until(k, SPAN_DONE, rank) && k->last.cell == 30 &&
           slice_is(k->last.v[F_DONE_STATUS].s, "error"),
       "a cell that waits for its variables is interrupted at once");
    ok(k->last.v[F_DONE_FLAGS].u64 & DONE_UNBOUND, "and says that it lacks them");
    ok(kernel_until(k, SPAN_STORED, 0) && k->last.blob == 60 && k->last.v[F_STORED_ERROR].s.n > 0,
       "which need not come");
    m = chunk_of(bytes, 60, 1000, 0);
    kernel_send(k, NULL, 0, &m);
    kernel_run(k, rank, 31, "out right");
    ok(kernel_until(k, SPAN_DONE, rank) && k->last.cell == 31 && kernel_told(k, "right") &&
           !kernel_told(k, "wrong"),
       "it never runs; the next one does");
    ok(!kernel_told(k, "blob 60 "), "without the variables");
    expect(k, 61, 1000, ALL);
    bind_to(k, rank, 32, 61, 1000);
    bind_to(k, 1, 32, 61, 1000);
    fetch.cell = 32;
    m = (struct span){ .kind = SPAN_INTERRUPT, .cell = 32 };
    kernel_send(k, &rank, 1, &fetch);
    kernel_forget(k);
    kernel_send(k, &rank, 1, &m);
    ok(kernel_until(k, SPAN_DONE, rank) && k->last.cell == 32 &&
           k->last.v[F_DONE_FLAGS].u64 == DONE_UNBOUND,
       "%%push likewise");
    m = chunk_of(bytes, 61, 1000, 0);
    kernel_send(k, NULL, 0, &m);
    ok(kernel_until(k, SPAN_STORED, 0) && k->last.blob == 61 &&
           k->last.v[F_STORED_ERROR].s.n == 0 && kernel_until(k, SPAN_LINES, 1) &&
           kernel_told(k, "1<blob 61 of 1000"),
       "what others wait for comes");
}

/* ---- a chain ---- */

/* 0: it was told to expect too many. */
static unsigned opens(struct lan *l, uint32_t sender, uint32_t receiver)
{
    struct span m = { .kind = SPAN_OPEN, .v[F_OPEN_NODE].u64 = receiver };
    struct keys k;

    keys_derive(&k, &l->secret, receiver, 0);
    m.v[F_OPEN_KEY].s = slice_of(k.public, KEY_SIZE);
    lan_tell(l, sender, sender, &m);
    (void)lan_until(l, SPAN_OPENED, sender);
    return (unsigned)l->last.v[F_OPENED_PORT].u64;
}

static void link_of(struct lan *l, uint32_t sender, uint32_t receiver, uint64_t role)
{
    const unsigned port = opens(l, sender, receiver);
    struct span m = { .kind = SPAN_DIAL, .v[F_DIAL_NODE].u64 = sender, .v[F_DIAL_ROLE].u64 = role };
    struct keys k;
    char endpoint[64];

    keys_derive(&k, &l->secret, sender, 0);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", port);
    m.v[F_DIAL_ENDPOINTS].s = slice_text(endpoint);
    m.v[F_DIAL_KEY].s = slice_of(k.public, KEY_SIZE);
    lan_tell(l, receiver, receiver, &m);
    ok(lan_until(l, SPAN_DIALED, receiver) && l->last.v[F_DIALED_ERROR].s.n == 0,
       "node %u dials node %u", receiver, sender);
}

static void expect_at(struct lan *l, uint32_t node, uint64_t size, uint64_t from)
{
    struct span m = about(SPAN_EXPECT, 5, size);

    m.v[F_EXPECT_FROM].u64 = from;
    lan_tell(l, node, node, &m);
    if (from != ALL)
        ok(lan_until(l, SPAN_CHUNK_ACK, node), "node %u is ready", node);
}

static void ship_from(struct lan *l, uint32_t node, uint64_t size, uint32_t to, bool through)
{
    struct span m = about(SPAN_SHIP, 5, size);

    m.v[F_SHIP_TO].u64 = to;
    m.v[F_SHIP_THROUGH].u64 = through;
    lan_tell(l, node, node, &m);
}

static bool reads_back(struct lan *l, const char *bytes, uint64_t size)
{
    struct span ack = about(SPAN_CHUNK_ACK, 5, size);
    uint64_t at = 0;

    ack.v[F_CHUNK_ACK_TO].u64 = ALL;
    while (at < size && lan_until(l, SPAN_CHUNK, 3)) {
        const struct slice data = l->last.v[F_CHUNK_DATA].s;

        if (l->last.v[F_CHUNK_OFFSET].u64 != at || memcmp(data.p, bytes + at, data.n) != 0)
            return false;
        at += data.n;
        ack.v[F_CHUNK_ACK_BYTES].u64 = at;
        lan_tell(l, 3, 3, &ack);
    }
    return at == size;
}

static void three_in_a_chain(const char *bytes, uint64_t size)
{
    struct span m;
    struct lan l;

    lan_open(&l);
    for (uint32_t node = 1; node <= 3; node++)
        lan_join(&l, node, LAN_STDIN);
    link_of(&l, 1, 2, DIAL_BLOBS);
    link_of(&l, 2, 3, DIAL_BLOBS);
    expect_at(&l, 1, size, ALL);
    expect_at(&l, 2, size, 1);
    expect_at(&l, 3, size, 2);
    ship_from(&l, 2, size, 3, false);
    ship_from(&l, 1, size, 2, false);
    for (uint64_t at = 0; at < size; at += CHUNK) {
        m = chunk_of(bytes, 5, size, at);
        lan_tell(&l, 1, 1, &m);
    }
    ok(lan_until(&l, SPAN_STORED, 3) && l.last.v[F_STORED_ERROR].s.n == 0,
       "a blob of %u MiB goes through two nodes to the third", (unsigned)(size >> 20));
    ship_from(&l, 3, size, ALL, true);
    ok(reads_back(&l, bytes, size), "with the bytes that the first got");
    ship_from(&l, 1, size, 3, false);
    ok(lan_until(&l, SPAN_OPENED, 1) && l.last.v[F_OPENED_NODE].u64 == 3 &&
           l.last.v[F_OPENED_ERROR].s.n > 0,
       "where there is no link, the sender says so");
    lan_close(&l);
}

/* Links that have failed are made anew as often as the kernel likes. */
static void links_made_anew(const char *bytes, uint64_t size)
{
    unsigned ports = 0;
    struct lan l;

    lan_open(&l);
    lan_join(&l, 1, LAN_STDIN);
    lan_join(&l, 2, LAN_STDIN);
    link_of(&l, 1, 2, DIAL_BLOBS);
    for (unsigned i = 0; i < 10; i++)
        link_of(&l, 1, 2, DIAL_BLOBS_ANEW);
    for (unsigned i = 0; i < 10; i++)
        ports += opens(&l, 1, 2) != 0;
    is_int(ports, 10, "a node that does not come is expected again");
    link_of(&l, 1, 2, DIAL_BLOBS_ANEW);
    link_of(&l, 2, 1, DIAL_BLOBS_ANEW);
    expect_at(&l, 1, size, ALL);
    expect_at(&l, 2, size, 1);
    ship_from(&l, 1, size, 2, false);
    for (uint64_t at = 0; at < size; at += CHUNK) {
        const struct span m = chunk_of(bytes, 5, size, at);

        lan_tell(&l, 1, 1, &m);
    }
    ok(lan_until(&l, SPAN_STORED, 2) && l.last.v[F_STORED_ERROR].s.n == 0,
       "a blob goes by the last of many links");
    lan_close(&l);
}

int main(int argc, char **argv)
{
    const uint64_t size = (9u << 20) + 5;
    char *bytes = malloc(size);
    struct kernel k;

    if (fake_is_wanted(argc, argv))
        return fake_main(argc, argv);
    memset(bytes, 'b', size);
    kernel_start(&k, argv[0], true, 1u << 20);
    messages_wait_for_their_blob(&k, bytes);
    a_window_and_no_more(&k);
    a_blob_that_does_not_come(&k);
    an_interrupt_while_a_cell_waits(&k, argv[0], bytes);
    is_int(kernel_end(&k), 0, "the agent ends with its stdin");
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    three_in_a_chain(bytes, size);
    links_made_anew(bytes, size);
    free(bytes);
    return plan_done();
}
