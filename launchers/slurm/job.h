/* job.h - srun as a child: its agents, what it says, what becomes of its job. */
#ifndef LAUNCHERS_SLURM_JOB_H
#define LAUNCHERS_SLURM_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/loop/loop.h"
#include "base/child_lines.h"
#include "launchers/slurm/slurm_command.h"
#include "launchers/words.h"

struct task {
    bool up;     /* it said who it is */
    bool failed; /* and was reported so */
    bool down;   /* its node is: whatever else ends the agent comes of that */
    char *node;  /* owned; NULL while it isn't up */
    char *end;   /* owned: how it ended, not reported yet */
    char *words; /* owned: why, in the agent's own words; NULL: it has said nothing */
};

struct job {
    struct loop *loop;
    const char *program; /* the agent's own name; borrowed */
    const char *prefix;  /* CELLSPAN_REMOTE_PREFIX, borrowed; NULL: not set */
    bool own;            /* srun makes the job: we may cancel it */
    bool told;           /* to end */
    bool over;           /* srun has ended, and all was reported */
    bool failed;
    unsigned long id;     /* 0: not known yet */
    uint64_t patience_ns; /* for agents, once the first is up */
    uint64_t pause_ns;    /* between two looks at the queue */
    pid_t pid;            /* srun's; 0: none */
    int status;           /* srun's, when it has ended */
    int signo;            /* the last sent to it */
    int in, out, errs;
    struct task *task;
    unsigned n;       /* tasks; 0: not known yet */
    unsigned looks;   /* at the job after srun's end */
    char *state;      /* the last that was said of the queue */
    char *why;        /* the last line in which Slurm says that it ended the job */
    struct buf early; /* lines on ends of tasks that came before any task said who it is */
    struct child_lines out_lines, err_lines;
    struct slurm_command command;
    struct watch *out_watch, *err_watch, *look, *late, *flush, *press;
};

MUST_USE int job_start(struct job *j, const struct words *argv, struct err *err);
void job_release(struct job *j);
/* Ends the agents' stdin; the job is cancelled when they don't end by that, or haven't begun. */
void job_end(struct job *j);
/* As job_end; a second time it does not wait for the agents any longer. */
void job_hurry(struct job *j);
/* srun has ended. j->over is true, and the loop stopped, when all is known. */
void job_ended(struct job *j, int status);

#endif
