/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel.h - creates all parts of the kernel and connects them. It ends with the program that has
 * started it. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "base/buf.h"
#include "base/loop/loop.h"

/* ---- arguments.c ---- */
/* The command line of cellspan-kernel. */

struct arguments {
    const char *connection_file;         /* borrowed from argv */
    const char *python, *python_version; /* borrowed from argv, or from `found` */
    struct buf found;                    /* owned: what the Python said that nobody named */
    bool help, version;
    const char *notice; /* borrowed: lines for the first cell; NULL: none */
    /* borrowed: IPython's settings (--Class.trait=VALUE), which are moved to the front of argv */
    char **trait;
    int n_traits;
};

/* Environment variables for home. The first has the traits as a JSON list; home removes it. */
#define ARGUMENTS_VARIABLE  "CELLSPAN_IPYTHON_ARGS"
#define CONNECTION_VARIABLE "CELLSPAN_CONNECTION_FILE" /* for %connect_info */

/* Finds the installation's own Python if none is named. Ignores unknown arguments and names them on
 * stderr. 1: --help or --version was printed to stdout; -1: *err names the argument. */
MUST_USE int arguments_parse(struct arguments *o, int argc, char **argv, struct err *err);
void arguments_release(struct arguments *o);
/* Puts the traits and the connection file's path into this process's environment, which the agent
 * and home inherit. -1: *err has the reason. */
MUST_USE int arguments_export(const struct arguments *o, struct err *err);

struct kernel;

/* Binds Jupyter's sockets first, then starts the agent. arguments is borrowed for the call. */
struct kernel *kernel_create(struct loop *loop, const struct arguments *arguments, struct err *err);
/* Ends everything that the kernel started, and removes its runtime directory. */
void kernel_destroy(struct kernel *k); /* NULL is fine */

#endif
