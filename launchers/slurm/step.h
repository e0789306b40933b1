/* SPDX-License-Identifier: BSD-3-Clause */
/* step.h - composes the srun that starts one agent on each node, from the SPEC and the job. */
#ifndef LAUNCHERS_SLURM_STEP_H
#define LAUNCHERS_SLURM_STEP_H

#include <stdbool.h>

#include "launchers/launcher.h"

/* ---- srun_options.c ---- */
/* Checks the SPEC of the engine slurm: options of srun, but for those that would break the engine
 */

struct slurm_options {
    bool nodes;       /* it sets the nodes or their number, perhaps through the number of GPUs */
    unsigned n_nodes; /* how many, if it is one number; else 0 */
    bool cpus;        /* it sets the number of CPUs */
    bool gpus;        /* it sets the number of GPUs */
    bool name;        /* it sets the job's name */
    /* of --signal, if that is SIGUSR1 or SIGUSR2: so many seconds before the end it is sent; else 0
     */
    unsigned notice;
    bool own_job;        /* it has options that only a new job can have: partition, account … */
    const char *cluster; /* of --clusters, borrowed from the words; NULL: it is not there */
};

/* Is it more than one cluster? */
bool slurm_names_clusters(const char *value);

/* Reads the words (borrowed). -1: *err names the word that is forbidden or not an option. */
MUST_USE int slurm_options_read(struct slurm_options *o, const struct words *words,
                                struct err *err);

/* ---- step.c: composes the command line and the environment of srun ---- */
/* A task prints one line that begins with this: its number, the number of tasks, the job and the
 * node. */
#define STEP_TASK "task "

struct step_plan {
    bool inside;                   /* in the job that we run in; else srun makes one */
    const char *nodes;             /* if inside: the number of that job's nodes; else NULL */
    unsigned gpus;                 /* if inside: GPUs on each node; 0: unknown, or nodes differ */
    unsigned ranks;                /* 0: unknown */
    const char *prefix;            /* CELLSPAN_REMOTE_PREFIX, or NULL */
    char *const *command;          /* the agent, NULL-terminated */
    const struct payload *payload; /* see script_spec */
    const char *image;             /* see script_spec */
};

MUST_USE int step_compose(struct words *argv, const struct step_plan *plan,
                          const struct slurm_options *options, const struct words *spec,
                          struct err *err);
/* The srun that runs `agent --relay folder` on a node of the job, beside its other steps.
 * -1: memory is out. */
MUST_USE int step_relay(struct words *argv, unsigned long job, const char *node, const char *agent,
                        const char *folder);
/* The secret is not in srun's environment, but the last line before the agents': what a container
 * gets from there can be read where it is described. */
#define STEP_SECRET "CELLSPAN_SECRET="
/* Must srun not see the variable of this name, since it would take it as an option? leave: we run
 * in a job, but make a new one. */
bool step_hides(const char *name, bool inside, bool leave);

/* How many GPUs the job has on each of its nodes. text: the output of `scontrol --details show
 * job`. Returns the least number of GPUs of a node (0: some node has none); *most: the greatest
 * number. */
unsigned step_gpus_per_node(const char *text, unsigned *most);

#endif
