/* SPDX-License-Identifier: BSD-3-Clause */
/* A chain has as many links as nodes: an array is enough. */
#include "kernel/blobs/direct_links.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/rows.h"
#include "protocol/span.h"

#define PAUSE_NS     (10 * NS_PER_S) /* after the first failure; doubled with each */
#define PAUSE_MAX_NS (600 * NS_PER_S)

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
        *link = (struct direct_link){ sender, receiver, DIRECT_LINK_OPENING, false, 0, 0 };
    return link;
}

void direct_link_failed(struct direct_link *link, uint64_t now_ns)
{
    const bool held = link->state == DIRECT_LINK_UP && now_ns - link->since_ns > link->pause_ns;

    link->pause_ns = held || !link->pause_ns ? PAUSE_NS
                                             : clock_earlier(2 * link->pause_ns, PAUSE_MAX_NS);
    link->state = DIRECT_LINK_BAD;
    link->anew = true;
    link->since_ns = now_ns;
}

void direct_link_up(struct direct_link *link, uint64_t now_ns)
{
    link->state = DIRECT_LINK_UP;
    link->since_ns = now_ns;
}

bool direct_link_is_due(const struct direct_link *link, uint64_t now_ns)
{
    return link->state == DIRECT_LINK_BAD && now_ns - link->since_ns >= link->pause_ns;
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
