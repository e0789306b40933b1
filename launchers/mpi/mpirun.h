/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun.h - what differs between MPIs: their options, the command that starts one agent on each
 * node, and how they label what processes write. Pure. */
#ifndef LAUNCHERS_MPI_MPIRUN_H
#define LAUNCHERS_MPI_MPIRUN_H

#include "launchers/agent_script.h"
#include "launchers/launcher.h"

enum mpi_kind {
    MPI_UNKNOWN,
    MPI_OPEN,  /* Open MPI, and what was made from it */
    MPI_HYDRA, /* MPICH, MVAPICH */
    MPI_INTEL  /* Hydra with options of its own */
};

/* From the output of `mpirun --version`. */
enum mpi_kind mpi_kind_of(const char *version);
/* -1: *err names the word of SPEC that is refused, and says why. */
MUST_USE int mpi_options_check(const struct words *spec, struct err *err);

/* A process prints this when it starts, and "NUMBER HOW_MANY NODE"; when its agent has ended, the
 * other, and the exit status. */
#define MPI_TASK  "task "
#define MPI_ENDED "ended "
/* In which an MPI numbers its processes. */
#define MPI_NUMBER "OMPI_COMM_WORLD_RANK,PMI_RANK"

/* Appends the command. script: the agent's command with its arguments is script->command. */
MUST_USE int mpi_compose(struct words *argv, enum mpi_kind kind, const char *program,
                         const struct words *spec, const struct script_spec *script,
                         struct err *err);

#define MPI_NOBODY 65536u
/* Returns the line without its label; *task: who wrote it, MPI_NOBODY: the MPI itself. */
const char *mpi_unlabel(const char *line, unsigned *task);

/* Does the MPI's line say why it could not start anything on a host? */
bool mpi_is_reason(const char *line);
/* The host of such a line, in `host`; "a host" if it names none. */
const char *mpi_host(const char *line, char host[static 256]);

#endif
