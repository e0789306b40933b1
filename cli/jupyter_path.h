/* SPDX-License-Identifier: BSD-3-Clause */
/* jupyter_path.h - where Jupyter looks for kernelspecs, and which of those of one name it takes. */
#ifndef CLI_JUPYTER_PATH_H
#define CLI_JUPYTER_PATH_H

#include <stdbool.h>

#include "base/err.h"

#define JUPYTER_DIRS_MAX 32u

struct jupyter_path {
    char *dir[JUPYTER_DIRS_MAX]; /* owned: data folders, the first one wins */
    unsigned n;
    char *program; /* owned: the `jupyter` that was asked; NULL: none has answered */
};

/* Asks the `jupyter` on PATH for its data folders, else the one beside this program: an environment
 * need not be activated. Without one they are those of jupyter_core's documentation: $JUPYTER_PATH,
 * the user's, those of `prefix` (may be NULL), /usr/local, /usr. -1: memory is out. */
MUST_USE int jupyter_path_find(struct jupyter_path *p, const char *prefix, struct err *err);
void jupyter_path_release(struct jupyter_path *p);
/* Does Jupyter look into this data folder? */
bool jupyter_path_has(const struct jupyter_path *p, const char *dir);
/* The first kernels/NAME/kernel.json of the path; for the caller to free(). NULL: there is none, or
 * memory is out. */
char *jupyter_path_spec(const struct jupyter_path *p, const char *name);

#endif
