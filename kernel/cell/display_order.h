/* SPDX-License-Identifier: BSD-3-Clause */
/* display_order.h - displays of several ranks come mixed. They wait a short time, with what their
 * ranks print after them, and leave in order of rank: the first displays of all ranks, what these
 * print, the displays after that, and so on. Pure. */
#ifndef KERNEL_CELL_DISPLAY_ORDER_H
#define KERNEL_CELL_DISPLAY_ORDER_H

#include "base/buf.h"
#include "base/clock.h"

struct held_output {
    struct held_output *next;
    enum held_kind {
        HELD_DISPLAY,
        HELD_TEXT,
        HELD_OVER, /* the rank prints nothing more */
    } kind;
    unsigned rank;
    unsigned round;               /* how often the rank's text was followed by a display */
    unsigned stream, flags;       /* of text */
    struct buf content, metadata; /* text has no metadata */
};

struct display_order {
    struct held_output *first; /* owned, in the order in which they leave */
    size_t bytes;
    unsigned n;
    uint64_t since_ns, due_ns; /* due_ns: UINT64_MAX if there are none */
};

void display_order_init(struct display_order *h);
void display_order_release(struct display_order *h);
bool display_order_has(const struct display_order *h, unsigned rank);
/* Adds one as `what` describes it, with copies of content and metadata. false: it can't wait. */
MUST_USE bool display_order_add(struct display_order *h, const struct held_output *what,
                                struct slice content, struct slice metadata, uint64_t now);
/* All of them in their order, now the caller's; nothing is held any more. NULL: there are none. */
struct held_output *display_order_take(struct display_order *h);
void held_output_free(struct held_output *held);

#endif
