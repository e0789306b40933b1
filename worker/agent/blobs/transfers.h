/* SPDX-License-Identifier: BSD-3-Clause */
/* transfers.h - blobs on their way to this node, from it, or through it to the next node. Chunks
 * that arrive are written to a memory file and sent on at once to the receivers, within a window.
 * Pure, but for those files: messages leave through transfers_ops. Specification:
 * protocol/README.md, "Blobs between nodes". */
#ifndef WORKER_AGENT_BLOBS_TRANSFERS_H
#define WORKER_AGENT_BLOBS_TRANSFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/buf.h"
#include "base/err.h"
#include "protocol/span.h"
#include "worker/agent/blobs/blobs.h"

#define TRANSFERS_CHUNK ((uint64_t)SPAN_CHUNK_MAX) /* bytes of a blob in one message */
/* bytes of space before an encoded message, for the head of a bundle's entry */
#define TRANSFERS_ROOM 12u
/* in place of a node's number: the connection to the kernel */
#define TRANSFERS_KERNEL 0xffffffffu

struct transfers;

struct transfers_ops {
    /* Sends the encoded message that stands behind TRANSFERS_ROOM unused bytes to the kernel
     * (TRANSFERS_KERNEL) or to that node, on the connection that either of the two dialed (DIAL,
     * DIAL_BLOBS). -1: there is no such connection. Always takes msg's bytes. Must not call
     * functions of this file. */
    int (*send)(void *arg, uint32_t link, struct buf *msg);
    /* Passes fd (borrowed) to the kernel, which reads the blob and sends it itself. -1: that
     * failed. NULL: the kernel is on another machine. */
    int (*share_fd)(void *arg, uint64_t blob, uint64_t size, int fd);
    /* The blob is complete and in the table. Or it will not arrive: then `error` says why, for the
     * user. Messages that waited for it may be sent now. */
    void (*settled)(void *arg, uint64_t blob, const char *error);
    /* The kernel can't be told something that it waits for. So the agent must end, later and not
     * within this call, or the kernel would wait for ever. */
    void (*broken)(void *arg, const char *why);
    /* How many more bytes may be kept here; *why names the limit. NULL: there is no limit. */
    uint64_t (*free_memory)(void *arg, const char **why);
    const struct clock *clock; /* borrowed */
    const char *node;          /* this host's name, for errors; borrowed */
    void *arg;
};

/* blobs is borrowed and gets the complete blobs. NULL: out of memory. */
struct transfers *transfers_create(struct blobs *blobs, const struct transfers_ops *ops,
                                   struct err *err);
void transfers_destroy(struct transfers *c); /* NULL is fine */

/* EXPECT, SHIP, CHUNK or CHUNK_ACK that came from `link` (TRANSFERS_KERNEL or a peer's node). m is
 * borrowed. */
void transfers_message(struct transfers *c, uint32_t link, const struct span *m);
void transfers_drop(struct transfers *c, uint64_t blob); /* DROP, also of a blob on its way. */
/* No worker here waits for this blob any more. Unless it is complete it is given up, and the kernel
 * is told. */
void transfers_unwanted(struct transfers *c, uint64_t blob);
/* The connection to that peer has ended. The kernel is told which blobs were to be sent on it. */
void transfers_unlinked(struct transfers *c, uint32_t link, const char *why);
/* The kernel has a new connection: what was on its way to it is sent again, and it is told how much
 * of each blob is here. */
void transfers_resumed(struct transfers *c);
bool transfers_expects(const struct transfers *c, uint64_t blob);
bool transfers_is_idle(const struct transfers *c); /* there is no transfer */

/* Reads and sends a limited number of chunks. true: there is more to do; call it again in the next
 * turn of the loop. */
bool transfers_work(struct transfers *c);
/* Cuts off receivers that have not answered for `limit_ns`, and tells the kernel. To be called
 * about once a second. Time in which this process did not run does not count. */
void transfers_check(struct transfers *c, uint64_t limit_ns);
/* Instead of that while this machine is cut off: what is silent then counts from the last call. */
void transfers_stand_still(struct transfers *c);

#endif
