/* SPDX-License-Identifier: BSD-3-Clause */
/* job.h - runs srun as a child process: its agents (tasks), its output, the state of its job. */
#ifndef LAUNCHERS_SLURM_JOB_H
#define LAUNCHERS_SLURM_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/loop/loop.h"
#include "base/child_lines.h"
#include "launchers/container.h"
#include "launchers/slurm/delivery.h"
#include "launchers/slurm/relays.h"
#include "launchers/slurm/slurm_command.h"
#include "launchers/slurm/waiting_job.h"
#include "launchers/launcher.h"

struct task {
    bool up;     /* it has printed its number and node */
    bool failed; /* it failed, and this was reported */
    bool down;   /* its node is down, which explains any other failure */
    char *node;  /* owned; NULL while it is not up */
    char *end;   /* owned: how it ended; not reported yet */
    char *words; /* owned: the agent's own error text; NULL: none */
    struct container_state container;
};

struct job {
    struct loop *loop;
    const char *program; /* the agent's own name; borrowed */
    const char *prefix;  /* CELLSPAN_REMOTE_PREFIX, borrowed; NULL: not set */
    const char *image;   /* agents run in containers of it, borrowed; NULL: in none */
    bool own;            /* srun makes the job, so we may cancel it */
    bool asked_to_end;   /* we were told to end */
    bool cancelled;      /* we have asked Slurm to cancel it */
    bool over;           /* srun has ended, and all was reported */
    bool failed;
    unsigned long id;   /* 0: not known yet */
    uint64_t limit_ns;  /* how long the other agents may take after the first is up */
    unsigned kill_wait; /* seconds from Slurm's SIGTERM to SIGKILL; 0: not known */
    pid_t pid;          /* srun's; 0: none */
    int status;         /* srun's, when it has ended */
    int signo;          /* the last signal sent to it */
    int in, out, errs;
    struct task *task;
    unsigned n;       /* tasks; 0: not known yet */
    unsigned fates;   /* number of questions about the job after srun's end */
    char *why;        /* the last line in which Slurm says why it ended the job */
    struct buf early; /* lines about ends of tasks that came before any task was up */
    struct child_lines out_lines, err_lines;
    struct waiting_job waiting;
    struct slurm_command command; /* a question about its end, or scancel */
    struct delivery delivery;
    struct relays relays;
    struct time_left left;
    struct watch *out_watch, *err_watch, *fate, *late, *flush, *stop;
};

MUST_USE int job_start(struct job *j, const struct words *argv, struct err *err);
void job_release(struct job *j);
/* Ends the agents by closing their stdin. If they don't end, or have not begun, cancels the job. */
void job_end(struct job *j);
/* The first call does job_end; a second one no longer waits for the agents. */
void job_hurry(struct job *j);
/* Call it when srun has ended. When all is known, j->over becomes true and the loop stops. */
void job_ended(struct job *j, int status);

#endif
