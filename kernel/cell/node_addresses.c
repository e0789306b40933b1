/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the address of a node at which the world's ranks meet: one whose family (IPv4, IPv6)
 * all nodes have. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "kernel/cell/cell_nodes.h"

/* Cuts entries off *list up to the next one with an address. false: there is none. */
static bool next_ip(struct slice *list, struct slice *ip)
{
    do
        *ip = span_cut_ip(list);
    while (!ip->n && list->n);
    return ip->n;
}

/* A node whose addresses are unknown is assumed to have both families. */
static bool has_family(const struct node *info, bool six)
{
    struct slice list = slice_text(info ? info->addresses : NULL), ip;
    bool any = false;

    while (next_ip(&list, &ip)) {
        any = true;
        if (slice_has(ip, ':') == six)
            return true;
    }
    return !any;
}

static bool all_have(const struct notebook *nb, const unsigned *nodes, size_t n, bool six)
{
    for (size_t k = 0; k < n; k++)
        if (!has_family(nb->ops.node(nb->ops.arg, nodes[k]), six))
            return false;
    return true;
}

int node_addresses_common(const struct notebook *nb, unsigned node, const unsigned *nodes, size_t n,
                          struct buf *out)
{
    const struct node *info = nb->ops.node(nb->ops.arg, node);
    struct slice list = slice_text(info ? info->addresses : NULL), ip;

    buf_clear(out);
    while (next_ip(&list, &ip))
        if (all_have(nb, nodes, n, slice_has(ip, ':')))
            return buf_add_slice(out, ip);
    return buf_add_text(out, info && info->address ? info->address : "");
}

int node_addresses_add_bytes(const struct notebook *nb, unsigned node, struct buf *out)
{
    const struct node *info = nb->ops.node(nb->ops.arg, node);
    struct slice list = slice_text(info && info->addresses ? info->addresses
                                   : info                  ? info->address
                                                           : NULL);
    struct slice ip;

    while (next_ip(&list, &ip)) {
        unsigned char bytes[16] = { [10] = 0xff, [11] = 0xff };
        char text[INET6_ADDRSTRLEN];

        snprintf(text, sizeof text, "%.*s", SLICE_ARG(ip));
        text[strcspn(text, "%")] = '\0'; /* the scope of a link-local address */
        if ((inet_pton(AF_INET, text, bytes + 12) == 1 || inet_pton(AF_INET6, text, bytes) == 1) &&
            buf_add(out, bytes, sizeof bytes) < 0)
            return -1;
    }
    return 0;
}
