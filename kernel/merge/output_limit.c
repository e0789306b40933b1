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

struct output_limit {
    const struct clock *clock;
    long server;
    uint64_t slot; /* the last one that something was counted in */
    struct {
        size_t bytes, messages;
    } of[SLOTS];
};

static const struct {
    size_t bytes, messages;
} most[] = { [LIMIT_TEXT] = { 2000000, 2000 }, [LIMIT_REST] = { 2600000, 2600 } };

struct output_limit *output_limit_create(const struct clock *clock, long server)
{
    struct output_limit *l = calloc(1, sizeof *l);

    if (l) {
        l->clock = clock;
        l->server = server;
    }
    return l;
}

long output_limit_server(const struct output_limit *l)
{
    return l->server;
}

void output_limit_destroy(struct output_limit *l)
{
    free(l);
}

/* Is slot k within the window now? */
static bool is_within(const struct output_limit *l, uint64_t now_slot, unsigned k)
{
    const uint64_t age = l->slot % SLOTS >= k ? l->slot % SLOTS - k : l->slot % SLOTS + SLOTS - k;

    return age <= l->slot && now_slot - (l->slot - age) < SLOTS;
}

/* What was sent within the window, and one message more. */
static size_t with_one(const struct output_limit *l, size_t *bytes)
{
    const uint64_t now_slot = clock_now(l->clock) / SLOT_NS;
    size_t messages = 1;

    for (unsigned k = 0; k < SLOTS; k++)
        if (is_within(l, now_slot, k)) {
            *bytes += l->of[k].bytes;
            messages += l->of[k].messages;
        }
    return messages;
}

bool output_limit_fits(const struct output_limit *l, enum output_limit_for what, size_t bytes)
{
    size_t sum = bytes + AROUND;
    const size_t messages = with_one(l, &sum);

    /* A single message may exceed the limit, such as a large figure, if nothing else was sent. */
    return (messages == 1 && what == LIMIT_REST) ||
           (sum <= most[what].bytes && messages <= most[what].messages);
}

bool output_limit_fits_comm(const struct output_limit *l)
{
    size_t bytes = 0;

    return with_one(l, &bytes) <= most[LIMIT_REST].messages;
}

static void count(struct output_limit *l, size_t bytes)
{
    const uint64_t now_slot = clock_now(l->clock) / SLOT_NS;

    for (uint64_t s = l->slot + 1; s <= now_slot && s <= l->slot + SLOTS; s++)
        memset(&l->of[s % SLOTS], 0, sizeof l->of[0]);
    if (now_slot > l->slot + SLOTS)
        memset(l->of, 0, sizeof l->of);
    l->slot = now_slot > l->slot ? now_slot : l->slot;
    l->of[l->slot % SLOTS].bytes += bytes;
    l->of[l->slot % SLOTS].messages++;
}

void output_limit_count(struct output_limit *l, size_t bytes)
{
    count(l, bytes + AROUND);
}

void output_limit_count_comm(struct output_limit *l)
{
    count(l, 0);
}

void output_limit_reset(struct output_limit *l)
{
    if (l)
        memset(l->of, 0, sizeof l->of);
}

uint64_t output_limit_due_ns(const struct output_limit *l)
{
    const uint64_t now = clock_now(l->clock);

    return l->slot + SLOTS <= now / SLOT_NS ? now : (now / SLOT_NS + 1) * SLOT_NS;
}

/* In JSON, most control characters become \u and four digits. */
size_t output_limit_size(struct slice text)
{
    size_t n = text.n;

    for (size_t i = 0; i < text.n; i++) {
        const unsigned char c = (unsigned char)text.p[i];

        n += c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r' ? 1 : c < 0x20 ? 5 : 0;
    }
    return n;
}
