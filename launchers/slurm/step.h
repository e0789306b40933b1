/* step.h - composes the command line and the environment of the srun that starts one agent on each
 * node. */
#ifndef LAUNCHERS_SLURM_STEP_H
#define LAUNCHERS_SLURM_STEP_H

#include <stdbool.h>

#include "launchers/slurm/options.h"
#include "launchers/words.h"

/* A task prints one line that begins with this: its number, the number of tasks, the job and the
 * node. */
#define STEP_TASK "task "

struct step_plan {
    bool inside;          /* in the job that we run in; else srun makes one */
    const char *nodes;    /* if inside: the number of that job's nodes; else NULL */
    unsigned gpus;        /* if inside: GPUs on each node; 0: unknown, or nodes differ */
    unsigned ranks;       /* 0: unknown */
    const char *prefix;   /* CELLSPAN_REMOTE_PREFIX, or NULL */
    char *const *command; /* the agent, NULL-terminated */
};

MUST_USE int step_compose(struct words *argv, const struct step_plan *plan,
                          const struct slurm_options *options, const struct words *spec,
                          struct err *err);
/* Must srun not see the variable of this name, since it would take it as an option? leave: we run
 * in a job, but make a new one. */
bool step_hides(const char *name, bool inside, bool leave);

#endif
