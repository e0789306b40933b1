/* SPDX-License-Identifier: BSD-3-Clause */
/* python_candidates.h - where the notebook's Python may be on this node. START names it by its path
 * on the notebook's machine, and nodes need not share a file system. path_probe.h finds out which
 * path exists. Launchers look for it in the same order before there is an agent: ASK_PACKAGES of
 * launchers/agent_script.c, lacks_packages() of _install/find_agent.py. Pure. */
#ifndef WORKER_AGENT_PROCESSES_PYTHON_CANDIDATES_H
#define WORKER_AGENT_PROCESSES_PYTHON_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

/* Programs that could be the Python, best first. */
struct python_candidates {
    char **program; /* owned, n of them: paths */
    size_t n;
    size_t wanted;       /* how many are at the notebook's own path, if nothing was set */
    char *says, *python; /* owned: what was set ("": nothing), and what was wanted */
    char version[32];    /* "python3.11": the version that was wanted; "": not known */
};

#define PYTHON_CANDIDATES_INIT { NULL, 0, 0, NULL, NULL, "" }

/* Lists `set` (CELLSPAN_REMOTE_PYTHON) alone. If it is NULL or "": lists `wanted`, then pythonX.Y
 * of the same version, if that is known, python3 and python in the folders of `path` (PATH). -1:
 * memory is out. */
MUST_USE int python_candidates_list(struct python_candidates *p, const char *wanted,
                                    const char *set, const char *path, struct err *err);
/* A NUL-terminated copy of a path in a message; the caller frees it. NULL: memory is out, or the
 * path contains a NUL. */
char *python_candidates_copy(struct slice path);
void python_candidates_release(struct python_candidates *p);
/* The program with index `found`. -1: none was found; returns NULL, and the err names node, path
 * and fix. Logs if it is not the first choice. */
const char *python_candidates_found(const struct python_candidates *p, int found, const char *node,
                                    struct err *err);

/* Finds "python3.11" in "/usr/bin/python3.11", or in a package's folder:
 * "/usr/lib/python3.11/site-packages". false: the path has no version. */
bool python_candidates_version(const char *path, char out[static 32]);

#endif
