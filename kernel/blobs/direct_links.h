/* SPDX-License-Identifier: BSD-3-Clause */
/* direct_links.h - the connections over which nodes send blobs to each other, as the kernel knows
 * them. Pure. */
#ifndef KERNEL_BLOBS_DIRECT_LINKS_H
#define KERNEL_BLOBS_DIRECT_LINKS_H

#include "base/buf.h"

enum direct_link_state {
    DIRECT_LINK_OPENING, /* the sender was told to OPEN a port */
    DIRECT_LINK_DIALING, /* the receiver was told to DIAL it */
    DIRECT_LINK_UP,
    DIRECT_LINK_BAD /* it failed: this pair of nodes does not try again */
};

struct direct_link {
    unsigned sender, receiver; /* nodes: the sender listens, the receiver dials */
    enum direct_link_state state;
};

struct direct_links {
    struct direct_link *link; /* owned */
    size_t n, room;
};

#define DIRECT_LINKS_INIT { NULL, 0, 0 }

void direct_links_release(struct direct_links *t);
struct direct_link *direct_links_get(const struct direct_links *t, unsigned sender,
                                     unsigned receiver); /* NULL: none */
/* In the state DIRECT_LINK_OPENING. NULL: memory is out. */
struct direct_link *direct_links_add(struct direct_links *t, unsigned sender, unsigned receiver);
/* Removes all links from and to the node. */
void direct_links_lost(struct direct_links *t, unsigned node);

/* Appends the list that DIAL carries, "tcp://IP:PORT,…", for a node whose HELLO had these
 * addresses, "IFNAME=IP,…". -1: memory is out. */
MUST_USE int direct_link_endpoints(struct slice addresses, unsigned port, struct buf *out);

#endif
