/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts what was sent in the last 3.6 s, although the server's limit is for 3 s: a message may
 * leave up to 100 ms after it was counted, so messages may reach the server in a shorter time than
 * the one in which they were counted. */
#include "kernel/merge/omit.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_NS (100 * NS_PER_MS)
#define SLOTS   36u
#define AROUND  1024u /* bytes of a message besides its text */

struct page {
    const struct clock *clock;
    long server;
    uint64_t slot; /* the last one that something was counted in */
    struct {
        size_t bytes, messages;
    } of[SLOTS];
};

static const struct {
    size_t bytes, messages;
} most[] = { [PAGE_TEXT] = { 2000000, 2000 }, [PAGE_REST] = { 2600000, 2600 } };

struct page *page_create(const struct clock *clock, long server)
{
    struct page *p = calloc(1, sizeof *p);

    if (p) {
        p->clock = clock;
        p->server = server;
    }
    return p;
}

long page_server(const struct page *p)
{
    return p->server;
}

void page_destroy(struct page *p)
{
    free(p);
}

/* Is slot k within the window now? */
static bool is_within(const struct page *p, uint64_t now_slot, unsigned k)
{
    const uint64_t age = p->slot % SLOTS >= k ? p->slot % SLOTS - k : p->slot % SLOTS + SLOTS - k;

    return age <= p->slot && now_slot - (p->slot - age) < SLOTS;
}

/* What was sent within the window, and one message more. */
static size_t with_one(const struct page *p, size_t *bytes)
{
    const uint64_t now_slot = clock_now(p->clock) / SLOT_NS;
    size_t messages = 1;

    for (unsigned k = 0; k < SLOTS; k++)
        if (is_within(p, now_slot, k)) {
            *bytes += p->of[k].bytes;
            messages += p->of[k].messages;
        }
    return messages;
}

bool page_fits(const struct page *p, enum page_for what, size_t bytes)
{
    size_t sum = bytes + AROUND;
    const size_t messages = with_one(p, &sum);

    /* A single message may exceed the limit, such as a large figure, if nothing else was sent. */
    return (messages == 1 && what == PAGE_REST) ||
           (sum <= most[what].bytes && messages <= most[what].messages);
}

bool page_fits_comm(const struct page *p)
{
    size_t bytes = 0;

    return with_one(p, &bytes) <= most[PAGE_REST].messages;
}

static void count(struct page *p, size_t bytes)
{
    const uint64_t now_slot = clock_now(p->clock) / SLOT_NS;

    for (uint64_t s = p->slot + 1; s <= now_slot && s <= p->slot + SLOTS; s++)
        memset(&p->of[s % SLOTS], 0, sizeof p->of[0]);
    if (now_slot > p->slot + SLOTS)
        memset(p->of, 0, sizeof p->of);
    p->slot = now_slot > p->slot ? now_slot : p->slot;
    p->of[p->slot % SLOTS].bytes += bytes;
    p->of[p->slot % SLOTS].messages++;
}

void page_count(struct page *p, size_t bytes)
{
    count(p, bytes + AROUND);
}

void page_count_comm(struct page *p)
{
    count(p, 0);
}

void page_reset(struct page *p)
{
    if (p)
        memset(p->of, 0, sizeof p->of);
}

uint64_t page_due_ns(const struct page *p)
{
    const uint64_t now = clock_now(p->clock);

    return p->slot + SLOTS <= now / SLOT_NS ? now : (now / SLOT_NS + 1) * SLOT_NS;
}

/* In JSON, most control characters become \u and four digits. */
size_t page_size(struct slice text)
{
    size_t n = text.n;

    for (size_t i = 0; i < text.n; i++) {
        const unsigned char c = (unsigned char)text.p[i];

        n += c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r' ? 1 : c < 0x20 ? 5 : 0;
    }
    return n;
}
