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
#define MPI_INSTALL "`apt install openmpi-bin`, or `conda install -c conda-forge openmpi`"
/* version: the same output. -1: it is too old. */
MUST_USE int mpi_version_check(enum mpi_kind kind, const char *program, const char *version,
                               struct err *err);
/* -1: *err names the word of SPEC that is refused, and says why. */
MUST_USE int mpi_options_check(const struct words *spec, struct err *err);

/* The value of the next option of SPEC, from *at on, that has one of these names (without dashes,
 * NULL at the end); *at: behind it. NULL: there is none. Borrowed. */
const char *mpi_option_value(const struct words *spec, const char *const *names, size_t *at);

/* Appends the hosts of a list ("h1,h2:4"), or of a hostfile. -1: memory is out. */
MUST_USE int mpi_hosts_of_list(struct words *hosts, const char *list);
MUST_USE int mpi_hosts_of_file(struct words *hosts, struct slice text);
/* One agent runs on each machine. An MPI takes a host that is named again for the same one; MPICH
 * does so only if no other one is in between. from: what names the hosts. n: of agents, 0: one on
 * each host. -1: *err names a host for which it fails, and what to do. */
MUST_USE int mpi_hosts_check(const struct words *hosts, const char *from, enum mpi_kind kind,
                             unsigned n, struct err *err);

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
