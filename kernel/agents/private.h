/* private.h - the state of the line to the agents. For this folder and its tests only: each part of
 * it belongs to the file of the same name. */
#ifndef KERNEL_AGENTS_PRIVATE_H
#define KERNEL_AGENTS_PRIVATE_H

#include "kernel/agents/agents.h"
#include "kernel/agents/agents_blobs.h"
#include "kernel/agents/credit.h"
#include "kernel/agents/listen.h"

#define WINDOW (UINT64_C(4) << 20) /* bytes that a worker may have sent without CREDIT for them */

struct agents {
    struct loop *loop; /* borrowed */
    struct agents_handler handler;
    struct listen listen;
    struct node_table nodes;
    struct to_agents out;
    struct agents_blobs blobs;
    struct credit_table credit;
    bool held; /* no CREDIT is sent */
    struct beat beat;
    struct watch *look; /* for silent nodes */
};

#endif
