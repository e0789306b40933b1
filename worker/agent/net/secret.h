/* SPDX-License-Identifier: BSD-3-Clause */
/* secret.h - takes the run's secret and the agent's number in the run from the engine: from the
 * environment, or from the first lines of stdin. The environment is wiped, so that neither workers
 * nor /proc show the secret. */
#ifndef WORKER_AGENT_NET_SECRET_H
#define WORKER_AGENT_NET_SECRET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/keys.h"

#define SECRET_LINE_MAX 512u

struct handed {
    struct secret secret; /* call secret_wipe() once the keys are made */
    uint32_t index, turn; /* CELLSPAN_AGENT, "INDEX" or "INDEX.TURN": see keys_derive() */
    bool has_secret, has_index;
    /* borrowed: with it the agent opens CELLSPAN_SEALED, which is then taken as the secret; NULL:
     * it takes none */
    const struct keys *sealed_for;
};

/* Takes both from the environment, overwrites and unsets them. Call it before anything copies or
 * changes the environment. -1: a value is wrong; the err does not show it. */
MUST_USE int secret_from_environment(struct handed *h, struct err *err);
/* Takes the agent's number from the first of these variables that is set; commas separate their
 * names. -1: none is set, or it is no number. */
MUST_USE int secret_number_from(struct handed *h, const char *names, struct err *err);
/* Unsets what an MPI's launcher set for the one process that it started. Ranks are other processes:
 * if each took this for its own, all would be the same rank of one MPI job, and wait for one
 * another. A program that is executed from now on does not inherit the descriptor named there. */
void secret_leave_mpi(void);
/* Reads lines from fd until both are there. -1: the input ended, a line is wrong, or limit_ms are
 * over. */
MUST_USE int secret_from_stdin(struct handed *h, int fd, int limit_ms, struct err *err);
/* One line, without its newline: `CELLSPAN_AGENT=…`, `CELLSPAN_SECRET=…` or `CELLSPAN_SEALED=…`.
 * Pure. */
MUST_USE int secret_take_line(struct handed *h, struct slice line, struct err *err);

#endif
