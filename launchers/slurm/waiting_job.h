/* SPDX-License-Identifier: BSD-3-Clause */
/* waiting_job.h - a job that waits in Slurm's queue: asks squeue about it, and tells the kernel. */
#ifndef LAUNCHERS_SLURM_WAITING_JOB_H
#define LAUNCHERS_SLURM_WAITING_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop/loop.h"
#include "launchers/slurm/slurm_command.h"

struct waiting_job {
    struct loop *loop; /* borrowed; NULL: nothing is asked */
    unsigned long id;  /* the job's */
    uint64_t pause_ns; /* between two questions */
    char *state;       /* owned: the last one that the kernel was told; NULL: none */
    bool allocated;    /* srun says that it has nodes, which may have to start first */
    loop_f runs;       /* it has its nodes, and its agents start */
    loop_f waits;      /* not yet: squeue, which had not answered before, says so */
    loop_f hopeless;   /* it can't start as it was asked for, which was said on stderr */
    void *arg;         /* of all */
    struct slurm_command command;
    struct watch *poll;
};

#define WAITING_JOB_INIT { .command = SLURM_QUESTION_INIT }

/* Asks from now on. The functions and arg are set before. */
void waiting_job_begin(struct waiting_job *q, struct loop *loop, unsigned long id);
/* srun says that the job has nodes. If squeue never answers, it counts as running. */
void waiting_job_allocated(struct waiting_job *q);
/* Asks no more: its agents are there, or it ends. No function is called any more. */
void waiting_job_stop(struct waiting_job *q);
void waiting_job_release(struct waiting_job *q);

#endif
