/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/agent.h"

#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "base/runtime.h"
#include "base/settings.h"
#include "worker/agent/blobs/transfer_io.h"
#include "worker/agent/gpu/gpu.h"
#include "worker/agent/private.h"
#include "worker/agent/net/join.h"

static void on_settled(void *arg, uint64_t blob, const char *error)
{
    relay_settle(arg, blob, error);
}

int agent_init(struct agent *a, const struct agent_args *args, struct loop *loop, struct err *err)
{
    const bool remote = join_is_remote(args->connect);
    const struct transfer_io_config transfers = { &a->kernel, &a->blobs, !remote, on_settled, a };

    memset(a, 0, sizeof *a);
    ports_reserved_init(&a->ports);
    a->workers.nccl.reserved = -1;
    a->args = *args;
    a->kernel.loop = loop;
    a->kernel.node = args->node;
    a->probes.loop = loop;
    a->package = runtime_package(); /* once: the file system may be slow */
    a->remote_python = setting_text(SETTING_REMOTE_PYTHON);
    a->path = getenv("PATH");
    oom_init(&a->oom);
    /* on the kernel's machine in its runtime folder, elsewhere in files without a name */
    spool_init(&a->spool, remote ? NULL : args->folder, setting_value(SETTING_SPOOL_LIMIT));
    if (!(a->read_buf = malloc(PIPES_READ_SIZE)))
        return err_set(err, "out of memory");
    if (!(a->gpus = gpu_open(loop, err)))
        return -1;
    a->workers = (struct workers){
        .agent = a,
        .io = { loop, loop_clock(loop), &a->kernel, &a->spool, a->read_buf, WORKER_CREDIT_FIRST },
        .gpus = a->gpus,
        .folder = args->folder,
        .timer_due_ns = UINT64_MAX,
        .nccl = { .reserved = -1 },
    };
    if (!(a->transfers = transfer_io_create(&transfers, err)))
        return -1;
    return reap_start(a, err);
}

void agent_release(struct agent *a)
{
    path_probes_end(&a->probes);
    while (a->workers.first) {
        struct worker *w = a->workers.first;

        a->workers.first = w->next;
        worker_destroy(w);
    }
    watch_stop(a->workers.timer);
    watch_stop(a->workers.stops);
    kernel_link_release(&a->kernel);
    transfer_io_destroy(a->transfers);
    a->transfers = NULL;
    gpu_close(a->gpus);
    a->gpus = NULL;
    blobs_release(&a->blobs);
    ports_reserved_release(&a->ports);
    fd_close(&a->workers.nccl.reserved);
    spool_release(&a->spool);
    free(a->read_buf);
    a->read_buf = NULL;
    free(a->package);
    a->package = NULL;
}

static void on_blobs(void *arg, uint32_t node, struct slice msg)
{
    transfer_io_peer(((struct agent *)arg)->transfers, node, msg);
}

static void on_unlinked(void *arg, uint32_t node, const char *why)
{
    transfer_io_unlinked(((struct agent *)arg)->transfers, node, why);
}

static void on_lost(void *arg, const char *why)
{
    kernel_link_fail(&((struct agent *)arg)->kernel, why);
}

static void on_resumed(void *arg)
{
    transfer_io_resumed(((struct agent *)arg)->transfers);
}

static void on_full(void *arg, bool full)
{
    struct agent *a = arg;

    a->workers.io.full = full;
    for (struct worker *w = a->workers.first; w; w = w->next)
        worker_watch(w);
}

struct uplink_handler agent_handler(struct agent *a)
{
    return (struct uplink_handler){ from_kernel_message, on_blobs, on_unlinked, on_lost, a,
                                    on_resumed,          on_full };
}
