/* place.h - what START names by the notebook's paths, as this node has it: nodes need not share a file system. */
#ifndef WORKER_AGENT_PLACE_H
#define WORKER_AGENT_PLACE_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

/* Looks for `told` (CELLSPAN_REMOTE_PYTHON; NULL or "": not set), then for `wanted`; with neither told nor there, on
 * `path` (PATH) for the same version's pythonX.Y, as far as that is known, python3, python. -1: there is none; the err names node,
 * path and fix. */
MUST_USE int place_python(const char *wanted, const char *told, const char *path, const char *node,
                          char out[static PATH_MAX], struct err *err);
/* Is there such a folder, which we may enter? */
bool place_has_folder(const char *path);

/* ---- pure ---- */

/* "python3.11" out of "/usr/bin/python3.11", or of a package's folder: "/usr/lib/python3.11/site-packages". false: it
 * has none. */
bool place_version(const char *path, char out[static 32]);

#endif
