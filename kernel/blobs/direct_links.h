/* SPDX-License-Identifier: BSD-3-Clause */
/* direct_links.h - the connections over which nodes send blobs to each other, as the kernel knows
 * them. Pure. */
#ifndef KERNEL_BLOBS_DIRECT_LINKS_H
#define KERNEL_BLOBS_DIRECT_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum direct_link_state {
    DIRECT_LINK_OPENING, /* the sender was told to OPEN a port */
    DIRECT_LINK_DIALING, /* the receiver was told to DIAL it */
    DIRECT_LINK_UP,
    DIRECT_LINK_BAD /* it failed, and is tried anew after a while */
};

struct direct_link {
    unsigned sender, receiver; /* nodes: the sender listens, the receiver dials */
    enum direct_link_state state;
    bool anew;         /* it has failed before; until it is up again, no blob waits for it */
    uint64_t since_ns; /* when it was up, or BAD */
    uint64_t pause_ns; /* after its last failure */
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
/* It is BAD from now on. The pause until it may be tried anew doubles with each failure, unless it
 * was up for longer than the last one. */
void direct_link_failed(struct direct_link *link, uint64_t now_ns);
void direct_link_up(struct direct_link *link, uint64_t now_ns);
/* It is BAD, and may be tried anew. */
bool direct_link_is_due(const struct direct_link *link, uint64_t now_ns);
/* Removes all links from and to the node. */
void direct_links_lost(struct direct_links *t, unsigned node);

/* Appends the list that DIAL carries, "tcp://IP:PORT,…", for a node whose HELLO had these
 * addresses, "IFNAME=IP,…". -1: memory is out. */
MUST_USE int direct_link_endpoints(struct slice addresses, unsigned port, struct buf *out);

#endif
