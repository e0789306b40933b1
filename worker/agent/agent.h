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
#include "worker/agent/processes/oom.h"
#include "worker/agent/reap.h"
#include "worker/agent/output/spool.h"

#define AGENT_READ_SIZE 65536u /* bytes of a pipe that are read in one turn */

struct worker;
struct gpu_desk;
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
    struct worker *worker; /* all of them, zygotes too: a list */
    struct blobs blobs;
    struct transfer_io *transfers; /* blobs from and to other nodes */
    struct oom oom;
    struct strays strays;
    struct gpu_desk *gpus;
    struct spool spool;        /* what workers printed lately */
    struct path_probes probes; /* for programs and folders of other machines' notebooks */
    /* owned: where the cellspan package is; NULL: on the Python's own path, for all that we know */
    char *package;
    uint64_t window; /* bytes, from WELCOME */
    char *read_buf;  /* AGENT_READ_SIZE bytes */
    /* where the ranks' NCCL answers: NCCL_RAS_ADDR; "": the user has set it */
    char ras[32];
    uint64_t nccl_cell; /* the STACKS for which NCCL was asked last */
};

MUST_USE int agent_init(struct agent *a, const struct agent_args *args, struct loop *loop,
                        struct err *err);
void agent_release(struct agent *a); /* after reap_everybody */

/* What takes the messages that come for this agent. */
struct uplink_handler agent_handler(struct agent *a);

/* NULL: none; never a zygote */
struct worker *agent_worker(const struct agent *a, uint32_t id);
struct worker *agent_worker_by_pid(const struct agent *a, pid_t pid); /* zygotes too */
/* The workers in an envelope, one after another: *at counts from 0. NULL: no more. Unknown ones are
 * left out. */
struct worker *agent_next(const struct agent *a, struct slice workers, size_t *at);
/* NUL-terminated (free()); NULL: memory is out, or there is a NUL within */
char *agent_text(struct slice s);

#endif
