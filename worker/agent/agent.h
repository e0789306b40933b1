/* agent.h - everything one agent has, and what the kernel asks of the agent itself. */
#ifndef WORKER_AGENT_AGENT_H
#define WORKER_AGENT_AGENT_H

#include <stdint.h>

#include "base/loop/loop.h"
#include "protocol/span.h"
#include "worker/agent/blobs/blobs.h"
#include "worker/agent/net/kernel_link.h"
#include "worker/agent/net/uplink.h"
#include "worker/agent/processes/path_probe.h"
#include "worker/agent/processes/worker.h"
#include "worker/agent/processes/oom.h"
#include "worker/agent/output/spool.h"

struct gpu_allocator;
struct transfer_io;

struct agent_args {
    const char *connect; /* the kernel's endpoints, separated by commas */
    const char *node;
    const char *python; /* start home with it; NULL: the kernel asks for it */
    const char *cwd;    /* of home and zygotes; NULL: ours */
    const char *folder; /* where files of workers go; NULL: there is none */
};

struct agent {
    struct agent_args args; /* borrowed */
    struct loop *loop;
    struct kernel_link kernel;
    struct workers workers;
    struct blobs blobs;
    struct transfer_io *transfers; /* blobs from and to other nodes */
    struct oom oom;
    struct gpu_allocator *gpus;
    struct spool spool;        /* what workers printed lately */
    struct path_probes probes; /* for programs and folders of other machines' notebooks */
    /* owned: where the cellspan package is; NULL: on the Python's own path, for all that we know */
    char *package;
    char *read_buf; /* owned: for pipes and sockets of workers */
};

MUST_USE int agent_init(struct agent *a, const struct agent_args *args, struct loop *loop,
                        struct err *err);
void agent_release(struct agent *a); /* after reap_everybody */

/* What takes the messages that come for this agent. */
struct uplink_handler agent_handler(struct agent *a);

#endif
