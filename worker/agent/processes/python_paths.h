/* python_paths.h - what START names by the notebook's paths, as this node may have it: nodes need
 * not share a file system. Which of it is there, look.h finds out. Pure. */
#ifndef WORKER_AGENT_PROCESSES_PYTHON_PATHS_H
#define WORKER_AGENT_PROCESSES_PYTHON_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

/* Programs that could be the Python, best first. */
struct python_paths {
    char **program; /* owned, n of them: paths */
    size_t n;
    size_t wanted;       /* how many are at the notebook's own path, where nothing was told */
    char *says, *python; /* owned: what was told, "": nothing; what was wanted */
    char version[32];    /* "python3.11": what was wanted, as far as that is known, or "" */
};

#define PYTHON_PATHS_INIT { NULL, 0, 0, NULL, NULL, "" }

/* `told` (CELLSPAN_REMOTE_PYTHON) and no other; where it is NULL or "", `wanted`, then what `path`
 * (PATH) may have of the same version's pythonX.Y, as far as that is known, of python3 and python.
 * -1: memory is out. */
MUST_USE int python_paths_list(struct python_paths *p, const char *wanted, const char *told,
                               const char *path, struct err *err);
/* A path of a message, NUL-terminated (free()); NULL: memory is out, or there is a NUL within. */
char *python_paths_copy(struct slice path);
void python_paths_release(struct python_paths *p);
/* The one that is there. NULL: none is, and the err names node, path and fix. found: its number,
 * -1: none. Logs when it is not the first choice. */
const char *python_paths_found(const struct python_paths *p, int found, const char *node,
                               struct err *err);

/* "python3.11" out of "/usr/bin/python3.11", or of a package's folder:
 * "/usr/lib/python3.11/site-packages". false: it has none. */
bool python_paths_version(const char *path, char out[static 32]);

#endif
