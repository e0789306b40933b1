/* SPDX-License-Identifier: BSD-3-Clause */
/* yard.h - a kernel's blob schedule and the transfers of a few nodes, with simulated links between
 * them: each link queues messages in order, and one message at a time is delivered from a link
 * chosen at random. Links and nodes fail when the test says so. */
#ifndef TESTS_UNIT_KERNEL_BLOBS_YARD_H
#define TESTS_UNIT_KERNEL_BLOBS_YARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "kernel/blobs/blob_schedule.h"
#include "kernel/blobs/local_blobs.h"
#include "worker/agent/blobs/transfers.h"

#define YARD_NODES 64u
#define YARD_K     YARD_NODES /* the kernel's place among the ends of links */

struct content {
    struct content *next;
    struct buf bytes;
    size_t unsent; /* the first of them, which are not sent */
};

struct queue {
    struct content *first, **last;
    size_t bytes, most; /* now, and the most there ever were */
};

struct yard;

struct yard_node {
    struct yard *yard;
    unsigned number;
    bool alive;
    struct blobs blobs;
    struct transfers *carrier;
    uint64_t space;
    unsigned settled, failed; /* how often the carrier said so */
    char why[256];            /* the last failure */
    /* mute: what goes out over links to other nodes is lost */
    bool refuses_open, refuses_dial, is_mute;
};

struct yard {
    struct blob_schedule *schedule;
    struct yard_node node[YARD_NODES];
    unsigned n;
    struct queue queue[YARD_NODES + 1][YARD_NODES + 1]; /* from, to */
    bool linked[YARD_NODES][YARD_NODES];
    uint64_t now_ns;
    uint64_t random;
    /* counted: CHUNKs that the kernel sent (messages, not receivers), that went over links between
     * nodes, SHIPs, DROPs */
    unsigned k_chunks, peer_chunks, ships, drops;
    /* from, to: CHUNKs over their link, and OPENs */
    unsigned chunks[YARD_NODES][YARD_NODES], opens[YARD_NODES][YARD_NODES];
    unsigned k_messages;            /* of the kernel's, of any kind */
    struct local_blobs local_blobs; /* by node 0, when it lends */
    int lending[2];                 /* the kernel's end, and node 0's */
    unsigned local_chunks;          /* CHUNKs whose bytes the kernel read */
    bool busy, wrong; /* as the kernel's side was told, which must match what it knows */
    struct clock clock;
};

/* n nodes that are alive, 0 among them. seed: of the order in which messages come; with an odd one
 * node 0 lends the kernel its blobs. */
void yard_init(struct yard *y, unsigned n, uint64_t seed);
void yard_release(struct yard *y);
/* A worker of the node has sent a blob of this size; its bytes follow from its number. */
void yard_put(struct yard *y, unsigned node, uint64_t blob, uint64_t size);
void yard_need(struct yard *y, uint64_t blob, uint64_t size, unsigned first,
               unsigned last); /* nodes first to last, of those that are alive */
/* Delivers at most `most` messages. How many there were. */
unsigned yard_run(struct yard *y, unsigned most);
void yard_kill(struct yard *y, unsigned node);
/* their link ends, and what was on it is lost */
void yard_cut(struct yard *y, unsigned a, unsigned b);
/* The node's connection to the kernel is reset, and it resumes: of what was on its way, chunks and
 * their answers are lost. */
void yard_reset(struct yard *y, unsigned node);
/* Does it hold all of it, and the right bytes? */
bool yard_has(const struct yard *y, unsigned node, uint64_t blob, uint64_t size);
bool yard_waits(const struct yard *y, unsigned node, uint64_t blob);
/* Does the kernel know it no more? Whoever needed it would be told nothing. */
bool yard_forgot(struct yard *y, uint64_t blob, uint64_t size);

#endif
