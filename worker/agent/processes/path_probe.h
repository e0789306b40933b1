/* SPDX-License-Identifier: BSD-3-Clause */
/* path_probe.h - finds out which of several programs exists, and whether a folder does. A child
 * process does it, because a file system whose server does not answer blocks its caller for ever.
 * The agent goes on, and reports after a limit where the child hangs. */
#ifndef WORKER_AGENT_PROCESSES_PATH_PROBE_H
#define WORKER_AGENT_PROCESSES_PATH_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/loop/loop.h"

struct path_probe;

/* All probes that have not ended. */
struct path_probes {
    struct loop *loop;
    struct path_probe *first;
};

struct path_probe_for {
    char *const *program; /* n of them; the caller keeps them until the end */
    size_t n;
    const char *folder; /* "": none is looked for */
    uint64_t limit_ns;
};

/* found: index of the first program that may be run; -1: none. folder: it exists and may be
 * entered. why: the error text if this could not be found out; NULL: it was. Called once, never
 * before path_probe_start() returns. */
typedef void (*path_probe_f)(void *arg, int found, bool folder, const char *why);

MUST_USE int path_probe_start(struct path_probes *probes, const struct path_probe_for *what,
                              path_probe_f f, void *arg, struct err *err);
void path_probes_end(struct path_probes *probes); /* calls each f, with a `why` */

#endif
