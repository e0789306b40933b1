/* step.h - the srun that starts one agent on each node, composed: its words and its environment. */
#ifndef LAUNCHERS_SLURM_STEP_H
#define LAUNCHERS_SLURM_STEP_H

#include <stdbool.h>

#include "launchers/slurm/options.h"
#include "launchers/words.h"

/* The line of an agent's stdout that begins with this names its number, how many there are, the job
 * and the node. */
#define STEP_TASK "task "

struct step_plan {
    bool inside;       /* within the job that we run in; else srun makes one */
    const char *nodes; /* of that job, where inside; else NULL */
    /* that it has on each of its nodes, where inside; 0: unknown, or not alike */
    unsigned gpus;
    unsigned ranks;       /* 0: unknown */
    const char *prefix;   /* CELLSPAN_REMOTE_PREFIX, or NULL */
    char *const *command; /* the agent, NULL-terminated */
};

MUST_USE int step_compose(struct words *argv, const struct step_plan *plan,
                          const struct slurm_options *options, const struct words *spec,
                          struct err *err);
/* Whether srun must not see this variable (a name), which it would take for an option. `leave`: we
 * run in a job, but make one. */
bool step_hides(const char *name, bool inside, bool leave);

#endif
