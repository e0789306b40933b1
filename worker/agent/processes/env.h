/* SPDX-License-Identifier: BSD-3-Clause */
/* env.h - the environment that a worker starts with. */
#ifndef WORKER_AGENT_PROCESSES_ENV_H
#define WORKER_AGENT_PROCESSES_ENV_H

#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

struct env {
    char **v; /* NULL-terminated "NAME=value"; all owned */
    size_t n;
};

#define ENV_INIT { NULL, 0 }

void env_release(struct env *e);
/* Appends a copy of `from`, which is NULL-terminated like environ. */
MUST_USE int env_copy(struct env *e, char *const *from, struct err *err);
/* value NULL: removes the name. */
MUST_USE int env_set(struct env *e, const char *name, const char *value, struct err *err);
const char *env_get(const struct env *e, const char *name); /* borrowed; NULL: not there */
/* Sets all names of a JSON object of strings. */
MUST_USE int env_set_json(struct env *e, struct slice json, struct err *err);
/* Sets what every worker needs: the cellspan package on its path (package NULL: it
 * is there already), and the folder for its files (NULL: none). */
MUST_USE int env_for_worker(struct env *e, const char *package, const char *folder, int stack_fd,
                            struct err *err);

#endif
