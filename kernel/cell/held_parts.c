/* SPDX-License-Identifier: BSD-3-Clause */
/* held_parts.c - displays that wait for those of other ranks (declared in held_parts.h). */
#include "kernel/cell/held_parts.h"

#include <stdlib.h>

#define BYTES_MAX ((size_t)1 << 20)
#define PARTS_MAX 4096u
#define WAIT_NS   (150 * NS_PER_MS) /* they leave so long after the last display, */
#define MOST_NS   (500 * NS_PER_MS) /* or after the first */

void held_parts_init(struct held_parts *h)
{
    *h = (struct held_parts){ .due_ns = UINT64_MAX };
}

void held_part_free(struct held_part *part)
{
    buf_release(&part->content);
    buf_release(&part->metadata);
    free(part);
}

struct held_part *held_parts_take(struct held_parts *h)
{
    struct held_part *first = h->first;

    held_parts_init(h);
    return first;
}

void held_parts_release(struct held_parts *h)
{
    struct held_part *part = held_parts_take(h);

    while (part) {
        struct held_part *next = part->next;

        held_part_free(part);
        part = next;
    }
}

static const struct held_part *last_of(const struct held_parts *h, unsigned rank)
{
    const struct held_part *last = NULL;

    for (const struct held_part *part = h->first; part; part = part->next)
        if (part->rank == rank)
            last = part;
    return last;
}

bool held_parts_has(const struct held_parts *h, unsigned rank)
{
    return h->first && last_of(h, rank);
}

/* Does part a leave before b, which came later? */
static bool is_before(const struct held_part *a, const struct held_part *b)
{
    const bool a_text = a->kind != HELD_DISPLAY, b_text = b->kind != HELD_DISPLAY;

    if (a->round != b->round)
        return a->round < b->round;
    return a_text != b_text ? b_text : a->rank <= b->rank;
}

bool held_parts_add(struct held_parts *h, const struct held_part *what, struct slice content,
                    struct slice metadata, uint64_t now)
{
    const struct held_part *last = last_of(h, what->rank);
    struct held_part **at = &h->first, *part;

    if (h->bytes + content.n + metadata.n > BYTES_MAX || h->n == PARTS_MAX ||
        !(part = calloc(1, sizeof *part)))
        return false;
    part->kind = what->kind;
    part->rank = what->rank;
    part->stream = what->stream;
    part->flags = what->flags;
    if (last)
        part->round = last->round + (last->kind != HELD_DISPLAY && what->kind == HELD_DISPLAY);
    if (buf_add_slice(&part->content, content) < 0 ||
        buf_add_slice(&part->metadata, metadata) < 0) {
        held_part_free(part);
        return false;
    }
    if (!*at)
        h->since_ns = now;
    if (part->kind == HELD_DISPLAY)
        h->due_ns = clock_earlier(now + WAIT_NS, h->since_ns + MOST_NS);
    while (*at && is_before(*at, part))
        at = &(*at)->next;
    part->next = *at;
    *at = part;
    h->bytes += content.n + metadata.n;
    h->n++;
    return true;
}
