/* options.h - checks the SPEC of the engine slurm: options of srun, except those that would break
 * the engine. */
#ifndef LAUNCHERS_SLURM_OPTIONS_H
#define LAUNCHERS_SLURM_OPTIONS_H

#include <stdbool.h>

#include "launchers/words.h"

struct slurm_options {
    bool nodes;       /* it sets the nodes or their number, perhaps through the number of GPUs */
    unsigned n_nodes; /* how many, if it is one number; else 0 */
    bool cpus;        /* it sets the number of CPUs */
    bool gpus;        /* it sets the number of GPUs */
    bool name;        /* it sets the job's name */
    bool own_job;     /* it has options that only a new job can have: partition, account … */
};

/* Reads the words (borrowed). -1: *err names the word that is forbidden or not an option. */
MUST_USE int slurm_options_read(struct slurm_options *o, const struct words *words,
                                struct err *err);

#endif
