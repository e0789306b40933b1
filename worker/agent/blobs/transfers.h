/* transfers.h - blobs on their way into this node, out of it, or through it to the next: chunks
 * come in and are written to a memory file, and what is there goes on to the receivers at once,
 * within a window. Pure but for those files: what is to be sent goes out through transfers_ops.
 * protocol/README.md, "Blobs between nodes", is the specification. */
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
/* bytes before a message that is sent: an entry of a bundle has them */
#define TRANSFERS_ROOM 12u
/* the link to the kernel, where the number of a peer may stand */
#define TRANSFERS_KERNEL 0xffffffffu
/* `to` of CHUNK, TAKEN, SHIP: every node that the kernel told to expect it so */
#define TRANSFERS_ALL 0xffffffffu

struct transfers;

struct transfers_ops {
    /* An encoded message, behind TRANSFERS_ROOM bytes of which nothing is wanted, on the link to
     * the kernel (TRANSFERS_KERNEL) or on the one to that node, whoever of the two dialed it (DIAL,
     * role 1). -1: there is no such link. Takes msg's bytes, always. Must not call the transfers
     * back. */
    int (*send)(void *arg, uint32_t link, struct buf *msg);
    /* The kernel is to read this blob's bytes and give them itself, by way of fd, which is
     * borrowed. -1: it can't. NULL: it is on another machine. */
    int (*share_fd)(void *arg, uint64_t blob, uint64_t size, int fd);
    /* It is whole, and in the table of blobs; or it won't come: error, for the user, says why.
     * Letters may leave. */
    void (*settled)(void *arg, uint64_t blob, const char *error);
    /* The kernel can't be told what it waits for: all is to end here, lest it wait for ever. Later,
     * not in the call. */
    void (*broken)(void *arg, const char *why);
    /* Bytes that may still be kept here; when they are few, *why names what limits them. NULL:
     * nothing does. */
    uint64_t (*free_memory)(void *arg, const char **why);
    const struct clock *clock; /* borrowed */
    const char *node;          /* this host's name, for errors; borrowed */
    void *arg;
};

/* blobs is borrowed: what is whole is there. NULL: out of memory. */
struct transfers *transfers_create(struct blobs *blobs, const struct transfers_ops *ops,
                                   struct err *err);
void transfers_destroy(struct transfers *c); /* NULL is fine */

/* EXPECT, SHIP, CHUNK, TAKEN that came on `link` (TRANSFERS_KERNEL or a peer's node). m is
 * borrowed. */
void transfers_message(struct transfers *c, uint32_t link, const struct span *m);
/* DROP: also of what is on its way. */
void transfers_drop(struct transfers *c, uint64_t blob);
/* Nobody here waits for it any more: unless it is whole it is given up, and the kernel told so. */
void transfers_unwanted(struct transfers *c, uint64_t blob);
/* The link to that peer has ended, or could not be kept: what was to go over it is reported to the
 * kernel. */
void transfers_unlinked(struct transfers *c, uint32_t link, const char *why);
bool transfers_expects(const struct transfers *c, uint64_t blob);
bool transfers_is_idle(const struct transfers *c); /* nothing moves */

/* Does a bounded amount of what there is to do (reading and sending chunks). True: there is more,
 * call it again in the next turn of the loop. */
bool transfers_work(struct transfers *c);
/* Looks for receivers that have not answered for `limit_ns`: reported as cut off. To be called
 * about once a second. */
void transfers_check(struct transfers *c, uint64_t limit_ns);

#endif
