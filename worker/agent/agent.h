/* SPDX-License-Identifier: BSD-3-Clause */
/* agent.h - the state of one agent; builds it, and frees it. */
#ifndef WORKER_AGENT_AGENT_H
#define WORKER_AGENT_AGENT_H

#include "base/loop/loop.h"
#include "worker/agent/blobs/blobs.h"
#include "worker/agent/net/kernel_link.h"
#include "worker/agent/net/port.h"
#include "worker/agent/net/uplink.h"
#include "worker/agent/processes/path_probe.h"
#include "worker/agent/processes/worker.h"
#include "worker/agent/processes/death_cause.h"
#include "worker/agent/output/spool.h"

struct transfer_io;

struct agent_args {
    const char *connect; /* the kernel's endpoints, separated by commas */
    const char *node;
    const char *python; /* home's Python, started at once; NULL: the kernel sends START for home */
    const char *cwd;    /* working directory of home and zygotes; NULL: the agent's */
    const char *folder; /* folder for workers' files; NULL: there is none */
};

struct agent {
    struct agent_args args; /* borrowed */
    struct kernel_link kernel;
    struct workers workers;
    struct blobs blobs;
    struct transfer_io *transfers; /* blobs on their way from and to other nodes */
    struct ports_reserved ports;
    struct oom oom;
    struct gpu_allocations *gpus;
    struct spool spool;        /* what workers printed lately */
    struct path_probes probes; /* questions whether paths of the notebook's machine exist here */
    /* owned: the folder of the cellspan package; NULL: not known, so Python has to find it */
    char *package;
    const char *remote_python, *path; /* borrowed: that variable and PATH; NULL: they are unset */
    char *read_buf;                   /* owned: for pipes and sockets of workers */
};

MUST_USE int agent_init(struct agent *a, const struct agent_args *args, struct loop *loop,
                        struct err *err);
void agent_release(struct agent *a); /* after end_all_workers */

/* Functions for the uplink that handle the messages for this agent. */
struct uplink_handler agent_handler(struct agent *a);

#endif
