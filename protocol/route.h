/* SPDX-License-Identifier: BSD-3-Clause */
/* route.h - the envelopes of messages between kernel and agents. Down: a route lists the workers
 * that a message is for. Up: a bundle holds many messages. README.md, "Envelopes", is the
 * specification. Pure. */
#ifndef PROTOCOL_ROUTE_H
#define PROTOCOL_ROUTE_H

#include "base/buf.h"

#define ROUTE_NODES_MAX 65535u /* a node's number is at most this */
/* in place of a node's number: the kernel, or a node that has no number yet */
#define ROUTE_KERNEL 0xffffffffu
/* an endpoint on this machine: this, and the path of the kernel's unix socket */
#define ROUTE_UNIX "unix://"

/* ---- down: route = *section; section = node:u32 n:u32 n*worker:u32 ---- */

struct route_section {
    uint32_t node;
    struct slice workers; /* *u32, borrowed; empty: for the node's agent itself */
    struct slice whole;   /* the section as bytes, for copying into another route */
};

/* workers: *u32 as in a section. -1: memory is out, and *out is as it was. */
MUST_USE int route_add(struct buf *out, uint32_t node, const uint32_t *workers, size_t n);
/* Removes the first section from *route. false: none is left, or the rest is incomplete (then
 * *route is not empty). */
bool route_next(struct slice *route, struct route_section *section);
bool route_is_whole(struct slice route); /* route_next() reaches its end */

/* ---- up: bundle = *entry; entry = node:u32 worker:u32 size:u32 message ---- */

struct bundle_entry {
    uint32_t node, worker;
    struct slice message; /* borrowed */
    struct slice whole;   /* the entry as bytes, for passing on */
};

MUST_USE int bundle_add(struct buf *out, uint32_t node, uint32_t worker, struct slice message);
bool bundle_next(struct slice *bundle, struct bundle_entry *entry); /* as route_next */

#endif
