/* SPDX-License-Identifier: BSD-3-Clause */
/* srun_output.h - parses srun's lines. */
#ifndef LAUNCHERS_SLURM_SRUN_OUTPUT_H
#define LAUNCHERS_SLURM_SRUN_OUTPUT_H

#include <limits.h>

#include "base/err.h"
#include "base/rank_set.h"

enum srun_output_kind {
    SRUN_TEXT,   /* for the user */
    SRUN_NOISE,  /* useless */
    SRUN_QUEUED, /* the job waits */
    SRUN_ALLOCATED,
    SRUN_TASKS,     /* tasks failed */
    SRUN_NODE,      /* a node is gone */
    SRUN_UNSTARTED, /* a node did not start its task */
};

struct srun_output {
    enum srun_output_kind kind;
    unsigned long job;  /* srun's own job, if the line names it; else 0 */
    struct ranks tasks; /* SRUN_TASKS; owned */
    /* SRUN_TASKS: how they ended; SRUN_NODE: the node's name; SRUN_UNSTARTED: "NODE: WHY". Points
     * into the line. */
    const char *text;
};

#define SRUN_NOBODY UINT_MAX

/* The line without "TASK: ", which srun --label puts before each line of a task. *task: its number;
 * SRUN_NOBODY for srun's own lines. */
const char *srun_output_unlabel(const char *line, unsigned *task);
void srun_output_release(struct srun_output *s);
/* Parses one line, which is borrowed as long as *s is used. -1: memory is out. */
MUST_USE int srun_output_read(struct srun_output *s, const char *line);
/* An agent's error text, "PROGRAM on HOST: WHY" or "PROGRAM on HOST can't …": writes it without the
 * host. false: it is none. */
bool srun_output_words(const char *line, const char *program, char *text, size_t size);
/* Will a job with this reason (squeue's %r) never start unless it, or the cluster, is changed? */
bool slurm_reason_hopeless(const char *reason);
/* An explanation of a reason for the user, if its name is not clear and waiting may not help; else
 * NULL. */
const char *slurm_reason_meaning(const char *reason);

/* Seconds of squeue's "2-03:04:05", "1:02:03" or "9:58"; -1: there is no limit, or that is none. */
long srun_output_time(const char *text);
/* After how many seconds Slurm sends SIGKILL to the tasks that it has sent SIGTERM. text: the
 * output of `scontrol show config`. 0: it does not say. */
unsigned slurm_kill_wait(const char *text);

#endif
