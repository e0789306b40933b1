/* SPDX-License-Identifier: BSD-3-Clause */
/* display_order.c - displays that wait for those of other ranks (declared in display_order.h). */
#include "kernel/cell/display_order.h"

#include <stdlib.h>

#define BYTES_MAX ((size_t)1 << 20)
#define HELD_MOST 4096u
#define WAIT_NS   (150 * NS_PER_MS) /* they leave this long after the last display, */
#define MOST_NS   (500 * NS_PER_MS) /* or after the first */

void display_order_init(struct display_order *h)
{
    *h = (struct display_order){ .due_ns = UINT64_MAX };
}

void held_output_free(struct held_output *held)
{
    buf_release(&held->content);
    buf_release(&held->metadata);
    free(held);
}

struct held_output *display_order_take(struct display_order *h)
{
    struct held_output *first = h->first;

    display_order_init(h);
    return first;
}

void display_order_release(struct display_order *h)
{
    struct held_output *held = display_order_take(h);

    while (held) {
        struct held_output *next = held->next;

        held_output_free(held);
        held = next;
    }
}

static const struct held_output *last_of(const struct display_order *h, unsigned rank)
{
    const struct held_output *last = NULL;

    for (const struct held_output *held = h->first; held; held = held->next)
        if (held->rank == rank)
            last = held;
    return last;
}

bool display_order_has(const struct display_order *h, unsigned rank)
{
    return h->first && last_of(h, rank);
}

/* Does a leave before b, which came later? */
static bool is_before(const struct held_output *a, const struct held_output *b)
{
    const bool a_text = a->kind != HELD_DISPLAY, b_text = b->kind != HELD_DISPLAY;

    if (a->round != b->round)
        return a->round < b->round;
    return a_text != b_text ? b_text : a->rank <= b->rank;
}

bool display_order_add(struct display_order *h, const struct held_output *what,
                       struct slice content, struct slice metadata, uint64_t now)
{
    const struct held_output *last = last_of(h, what->rank);
    struct held_output **at = &h->first, *held;

    if (h->bytes + content.n + metadata.n > BYTES_MAX || h->n == HELD_MOST ||
        !(held = calloc(1, sizeof *held)))
        return false;
    held->kind = what->kind;
    held->rank = what->rank;
    held->stream = what->stream;
    held->flags = what->flags;
    if (last)
        held->round = last->round + (last->kind != HELD_DISPLAY && what->kind == HELD_DISPLAY);
    if (buf_add_slice(&held->content, content) < 0 ||
        buf_add_slice(&held->metadata, metadata) < 0) {
        held_output_free(held);
        return false;
    }
    if (!*at)
        h->since_ns = now;
    if (held->kind == HELD_DISPLAY)
        h->due_ns = clock_earlier(now + WAIT_NS, h->since_ns + MOST_NS);
    while (*at && is_before(*at, held))
        at = &(*at)->next;
    held->next = *at;
    *at = held;
    h->bytes += content.n + metadata.n;
    h->n++;
    return true;
}
