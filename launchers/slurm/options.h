/* options.h - SPEC of the engine slurm: srun's own options, of which some would break it. */
#ifndef LAUNCHERS_SLURM_OPTIONS_H
#define LAUNCHERS_SLURM_OPTIONS_H

#include <stdbool.h>

#include "launchers/words.h"

struct slurm_options {
    bool nodes;       /* it says on which or how many nodes, or leaves it to the GPUs */
    unsigned n_nodes; /* how many, where that is one number; else 0 */
    bool cpus;        /* it says how many CPUs */
    bool gpus;        /* it says how many GPUs */
    bool name;        /* it names the job */
    bool own_job;     /* it asks for what only a job of its own can have: partition, account … */
};

/* Reads the words; borrowed. The err names the word that would break it, or is no option. */
MUST_USE int slurm_options_read(struct slurm_options *o, const struct words *words,
                                struct err *err);

#endif
