/* SPDX-License-Identifier: BSD-3-Clause */
/* kernelspec.h - what Jupyter reads to start a kernel: kernels/NAME/kernel.json and its logos. */
#ifndef CLI_KERNELSPEC_H
#define CLI_KERNELSPEC_H

#include "base/err.h"
#include "base/slice.h"

struct kernelspec {
    const char *kernel;       /* cellspan-kernel, absolute */
    const char *python;       /* the workers' interpreter, absolute */
    const char *version;      /* that interpreter's, "3.11.7" */
    const char *display_name; /* as the launcher shows it */
};

/* "DIR/share/jupyter/kernels/NAME" of a prefix, or of the user (prefix NULL) as jupyter_core finds
 * it: $JUPYTER_DATA_DIR, $XDG_DATA_HOME/jupyter, ~/.local/share/jupyter; ~/Library/Jupyter on
 * macOS. The caller frees the path. NULL: *err says why. */
char *kernelspec_dir(const char *prefix, const char *name, struct err *err);
/* The data folder alone, without kernels/NAME. */
char *kernelspec_data_dir(const char *prefix, struct err *err);
/* Jupyter takes letters, digits, '.', '_' and '-'. */
MUST_USE int kernelspec_check_name(const char *name, struct err *err);
/* Makes the folder and writes the files, each whole or not at all. What else lies there stays. -1
 * also if another program's kernelspec is there. */
MUST_USE int kernelspec_write(const char *dir, const struct kernelspec *spec, struct err *err);
/* Removes the files that kernelspec_write made, and the folder, unless others are in it. Refuses
 * one that is not there, or not cellspan's. */
MUST_USE int kernelspec_remove(const char *dir, struct err *err);

/* ---- logo.c: the pictures that launchers show for the kernel, compiled in from logos/ ---- */
struct logo {
    const char *name; /* as Jupyter looks for it; NULL ends the table */
    struct slice image;
};

extern const struct logo logos[];

#endif
