/* lanes.h - links between nodes, for blobs: who listens, who dialed, and how far they have come.
 * Pure. */
#ifndef KERNEL_AGENTS_LANES_H
#define KERNEL_AGENTS_LANES_H

#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

enum lane_state { LANE_OPENING, LANE_DIALING, LANE_UP, LANE_BAD };

struct lane {
    unsigned giver, taker; /* the giver listens, the taker dials */
    enum lane_state state;
};

struct lanes {
    struct lane *lane; /* owned */
    size_t n, room;
};

#define LANES_INIT { NULL, 0, 0 }

void lanes_release(struct lanes *t);
struct lane *lanes_get(const struct lanes *t, unsigned giver, unsigned taker); /* NULL: none */
/* opening; NULL: memory is out */
struct lane *lanes_add(struct lanes *t, unsigned giver, unsigned taker);
/* all from and to it */
void lanes_lost(struct lanes *t, unsigned node);

/* DIAL's list for a peer whose HELLO said `addresses` ("IFNAME=IP,…"): "tcp://IP:PORT,…". -1:
 * memory is out. */
MUST_USE int lane_endpoints(struct slice addresses, unsigned port, struct buf *out);

#endif
