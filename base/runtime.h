/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.h - the folder for a process's sockets and secrets while it runs, and the paths of our
 * other programs. */
#ifndef BASE_RUNTIME_H
#define BASE_RUNTIME_H

#include <stdbool.h>

#include "base/err.h"

/* Makes the folder cellspan-PID-RANDOM (0700) under $XDG_RUNTIME_DIR, $TMPDIR or /tmp: the first
 * where that works and where the path of a socket is not too long. The caller must free() the path.
 * *lock: a descriptor that protects the folder from runtime_sweep() of other processes. Close it
 * after the folder is removed. */
char *runtime_dir_create(int *lock, struct err *err);
/* Another such descriptor for an existing folder, for a process that may outlive the one that made
 * it. -1: the folder has no lock. */
int runtime_dir_hold(const char *dir);
enum runtime_dir_state {
    RUNTIME_DIR_HELD,   /* somebody has such a descriptor */
    RUNTIME_DIR_FREE,   /* nobody has, or there is no such folder of this user */
    RUNTIME_DIR_UNKNOWN /* it can't be found out now: a file system is away, or no descriptor free
                         */
};
enum runtime_dir_state runtime_dir_state(const char *dir);
/* Removes folders that killed processes of this user have left: those that nobody has locked.
 * (Their pids can't tell, since they may belong to another container.) */
void runtime_sweep(void);
/* The socket in an agent's folder at which `cellspan notice` tells it that its machine will be
 * gone: a datagram "SECONDS TEXT". */
#define RUNTIME_NOTICE "notice"
/* Calls f with the path of each such folder of this user: also in /run/user/UID, for a program that
 * has not the user's environment. */
void runtime_each(void (*f)(void *arg, const char *dir), void *arg);
/* Removes the directory and all in it; symbolic links are removed, not followed. NULL is fine. */
MUST_USE int runtime_dir_remove(const char *dir, struct err *err);
/* "DIR/NAME", to be freed by the caller. NULL: memory is out, or too long for a unix socket. */
char *runtime_path(const char *dir, const char *name, struct err *err);

/* Finds one of our programs ("cellspan-agent", "cellspan-launch-local"): in $CELLSPAN_LIBEXECDIR,
 * beside the running executable, in ../libexec/cellspan from there, in the compiled-in
 * CELLSPAN_LIBEXECDIR, on PATH. The caller must free() the path. NULL: *err lists these places. */
char *runtime_find(const char *program, struct err *err);
/* The Python that this installation was made for: cellspan-python beside the running executable,
 * whose first line pip wrote, or python3 there. The caller must free() the path. NULL: neither is
 * there, or memory is out. */
char *runtime_python(void);
/* The folder with the Python package cellspan: $CELLSPAN_PYTHONPATH, for a program in
 * libexec/cellspan the one of the same installation, the one that was compiled in, or
 * ../../lib/cellspan/python from the running executable. The caller must free() the path. NULL:
 * there is none, or memory is out. */
char *runtime_package(void);
/* A program on PATH; the caller must free() the path. NULL: it is not there, or memory is out. */
char *runtime_on_path(const char *program);
/* Resolves a path such as "../lib/x" relative to the folder of the running executable. The caller
 * must free() it. NULL: nothing is there. */
char *runtime_near(const char *path);

#endif
