/* SPDX-License-Identifier: BSD-3-Clause */
#include "launchers/slurm/sbcast.h"

#include <stdio.h>

#include "base/blob.h"
#include "base/process.h"
#include "launchers/agent_script.h"

#define LIMIT_NS (60 * NS_PER_S)

void sbcast_release(struct sbcast *b)
{
    process_end_tree(b->command.pid);
    slurm_command_release(&b->command);
    fd_close(&b->file);
    b->n = 0;
}

int sbcast_add(struct sbcast *b, struct slice bytes, struct err *err)
{
    if (b->file < 0 && (b->file = blob_create("cellspan-sent", err)) < 0)
        return -1;
    if (blob_write(b->file, bytes.p, bytes.n, b->n, err) < 0)
        return -1;
    b->n += bytes.n;
    return 0;
}

bool sbcast_start(struct sbcast *b, struct loop *loop, unsigned long job, unsigned long step,
                  slurm_command_f f, void *arg)
{
    char id[64], path[128];
    /* --force: two nodes may share their /tmp, as those that run on one machine do */
    const char *const argv[] = {
        "sbcast", "--force", "--jobid", id, "/proc/self/fd/0", path, NULL
    };

    snprintf(id, sizeof id, "%lu.%lu", job, step);
    snprintf(path, sizeof path, SCRIPT_FOLDER "%s/" SCRIPT_FILE, id);
    b->command.in = b->file;
    b->command.limit_ns = LIMIT_NS;
    return slurm_command_start(&b->command, loop, argv, f, arg);
}
