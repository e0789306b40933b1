/* place.h - what START names by the notebook's paths, as this node may have it: nodes need not
 * share a file system. Which of it is there, look.h finds out. Pure. */
#ifndef WORKER_AGENT_PLACE_H
#define WORKER_AGENT_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Programs that could be the Python, best first. */
struct place {
    char **program; /* owned, n of them: paths */
    size_t n;
    size_t wanted;       /* how many are at the notebook's own path, where nothing was told */
    char *says, *python; /* owned: what was told, "": nothing; what was wanted */
    char version[32];    /* "python3.11": what was wanted, as far as that is known, or "" */
};

#define PLACE_INIT { NULL, 0, 0, NULL, NULL, "" }

/* `told` (CELLSPAN_REMOTE_PYTHON) and no other; where it is NULL or "", `wanted`, then what `path`
 * (PATH) may have of the same version's pythonX.Y, as far as that is known, of python3 and python.
 * -1: memory is out. */
MUST_USE int place_list(struct place *p, const char *wanted, const char *told, const char *path,
                        struct err *err);
void place_release(struct place *p);
/* The one that is there. NULL: none is, and the err names node, path and fix. found: its number,
 * -1: none. Logs when it is not the first choice. */
const char *place_found(const struct place *p, int found, const char *node, struct err *err);

/* "python3.11" out of "/usr/bin/python3.11", or of a package's folder:
 * "/usr/lib/python3.11/site-packages". false: it has none. */
bool place_version(const char *path, char out[static 32]);

#endif
