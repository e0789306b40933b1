/* agents_blobs.h - connects the blob schedule and this machine's local blobs to the agents. */
#ifndef KERNEL_AGENTS_AGENTS_BLOBS_H
#define KERNEL_AGENTS_AGENTS_BLOBS_H

#include "kernel/agents/to_agents.h"
#include "kernel/blobs/blob_schedule.h"
#include "kernel/blobs/local_blobs.h"

struct agents_blobs {
    struct to_agents *out;          /* borrowed */
    struct blob_schedule *schedule; /* owned */
    struct local_blobs local;       /* shared by this machine's agent */
    int socket;                     /* from which its descriptors come */
    bool failed;                    /* a message about a blob could not be encoded */
};

MUST_USE int agents_blobs_init(struct agents_blobs *b, struct to_agents *out, struct err *err);
void agents_blobs_release(struct agents_blobs *b);

/* Call it before m is sent to the workers: starts to send the blob of m to their nodes. */
MUST_USE int agents_blobs_send_ahead(struct agents_blobs *b, const uint32_t *workers, size_t n,
                                     const struct span *m, struct err *err);
/* This machine's agent leaves it to the kernel to send one of its blobs: `chunk` has no bytes. */
void agents_blobs_begin_local(struct agents_blobs *b, const struct span *chunk);
void agents_blobs_node_lost(struct agents_blobs *b, unsigned node);
/* Call it after each other call of the schedule: sends every chunk of local blobs that flow control
 * allows. false: a message about a blob could not be encoded since the last call; then nobody waits
 * for a blob any more. */
bool agents_blobs_go_on(struct agents_blobs *b);

#endif
