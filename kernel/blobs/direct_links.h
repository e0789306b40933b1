/* direct_links.h - links between nodes, for blobs: who listens, who dialed, and how far they have
 * come. Pure. */
#ifndef KERNEL_BLOBS_DIRECT_LINKS_H
#define KERNEL_BLOBS_DIRECT_LINKS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

enum direct_link_state {
    DIRECT_LINK_OPENING,
    DIRECT_LINK_DIALING,
    DIRECT_LINK_UP,
    DIRECT_LINK_BAD
};

struct direct_link {
    unsigned sender, receiver; /* the sender listens, the receiver dials */
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
/* opening; NULL: memory is out */
struct direct_link *direct_links_add(struct direct_links *t, unsigned sender, unsigned receiver);
/* all from and to it */
void direct_links_lost(struct direct_links *t, unsigned node);

/* DIAL's list for a peer whose HELLO said `addresses` ("IFNAME=IP,…"): "tcp://IP:PORT,…". -1:
 * memory is out. */
MUST_USE int direct_link_endpoints(struct slice addresses, unsigned port, struct buf *out);

#endif
