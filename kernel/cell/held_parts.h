/* SPDX-License-Identifier: BSD-3-Clause */
/* held_parts.h - displays of several ranks come mixed. They wait a short time, with what their
 * ranks print after them, and leave in order of rank: the first displays of all ranks, what these
 * print, the displays after that, and so on. Pure. */
#ifndef KERNEL_CELL_HELD_PARTS_H
#define KERNEL_CELL_HELD_PARTS_H

#include "base/buf.h"
#include "base/clock.h"

struct held_part {
    struct held_part *next;
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

struct held_parts {
    struct held_part *first; /* owned, in the order in which they leave */
    size_t bytes;
    unsigned n;
    uint64_t since_ns, due_ns; /* due_ns: UINT64_MAX if there are none */
};

void held_parts_init(struct held_parts *h);
void held_parts_release(struct held_parts *h);
bool held_parts_has(const struct held_parts *h, unsigned rank);
/* Adds a part as `what` describes it, with copies of content and metadata. false: it can't wait. */
MUST_USE bool held_parts_add(struct held_parts *h, const struct held_part *what,
                             struct slice content, struct slice metadata, uint64_t now);
/* The parts in their order, now the caller's; nothing is held any more. NULL: there are none. */
struct held_part *held_parts_take(struct held_parts *h);
void held_part_free(struct held_part *part);

#endif
