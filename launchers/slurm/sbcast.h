/* SPDX-License-Identifier: BSD-3-Clause */
/* sbcast.h - brings bytes to the nodes of a step as a file, by Slurm's sbcast: nodes pass it on
 * to one another, where srun would send a copy to each task. */
#ifndef LAUNCHERS_SLURM_SBCAST_H
#define LAUNCHERS_SLURM_SBCAST_H

#include <stdbool.h>

#include "base/loop/loop.h"
#include "base/slice.h"
#include "launchers/slurm/slurm_command.h"

struct sbcast {
    struct slurm_command command;
    int file; /* the bytes, on this machine; -1: none yet */
    size_t n;
};

#define SBCAST_INIT { .command = SLURM_COMMAND_INIT, .file = -1 }

/* Kills a sbcast that runs: what it puts on nodes would be of no use. */
void sbcast_release(struct sbcast *b);
/* Adds bytes to the file. */
MUST_USE int sbcast_add(struct sbcast *b, struct slice bytes, struct err *err);
/* Brings it to SCRIPT_FILE in the folder that each task has made. Calls f when sbcast has ended,
 * with what it said; whether the file is on a node is not known. false: it couldn't be started. */
bool sbcast_start(struct sbcast *b, struct loop *loop, unsigned long job, unsigned long step,
                  slurm_command_f f, void *arg);

#endif
