/* SPDX-License-Identifier: BSD-3-Clause */
/* A chain has as many links as nodes: an array is enough. */
#include "kernel/blobs/direct_links.h"

#include <stdlib.h>

#include "base/rows.h"
#include "protocol/span.h"

void direct_links_release(struct direct_links *t)
{
    free(t->link);
    *t = (struct direct_links)DIRECT_LINKS_INIT;
}

struct direct_link *direct_links_get(const struct direct_links *t, unsigned sender,
                                     unsigned receiver)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->link[i].sender == sender && t->link[i].receiver == receiver)
            return &t->link[i];
    return NULL;
}

struct direct_link *direct_links_add(struct direct_links *t, unsigned sender, unsigned receiver)
{
    struct direct_link *link = rows_add(&t->link, &t->n, &t->room, sizeof *link);

    if (link)
        *link = (struct direct_link){ sender, receiver, DIRECT_LINK_OPENING };
    return link;
}

void direct_links_lost(struct direct_links *t, unsigned node)
{
    size_t left = 0;

    for (size_t i = 0; i < t->n; i++)
        if (t->link[i].sender != node && t->link[i].receiver != node)
            t->link[left++] = t->link[i];
    t->n = left;
}

int direct_link_endpoints(struct slice addresses, unsigned port, struct buf *out)
{
    while (addresses.n) {
        const struct slice ip = span_cut_ip(&addresses);

        if (ip.n && buf_addf(out, slice_has(ip, ':') ? "%stcp://[%.*s]:%u" : "%stcp://%.*s:%u",
                             out->n ? "," : "", SLICE_ARG(ip), port) < 0)
            return -1;
    }
    return 0;
}
