/* runtime.h - where a process keeps its sockets and secrets while it lives, and where our other
 * programs are. */
#ifndef BASE_RUNTIME_H
#define BASE_RUNTIME_H

#include "base/err.h"

/* Makes cellspan-PID-RANDOM (0700) under $XDG_RUNTIME_DIR, else $TMPDIR, else /tmp: the first of
 * them in which it works and in which a socket's path (at most 107 bytes) still has room. The path
 * is the caller's (free()). *lock: a descriptor, to be closed when the folder is removed; while
 * nobody has one, the folder may be swept. */
char *runtime_dir_create(int *lock, struct err *err);
/* Another such descriptor of a folder that is there: for who needs it longer than its maker may
 * live. -1: it has none. */
int runtime_dir_hold(const char *dir);
/* Removes what processes of this user that were killed have left: the folders in those places that
 * nobody holds. (By their locks: a pid may be another container's.) */
void runtime_sweep(void);
/* Removes the directory and all in it; symbolic links are removed, not followed. NULL is fine. */
MUST_USE int runtime_dir_remove(const char *dir, struct err *err);
/* "DIR/NAME", the caller's (free()). NULL: memory is out, or it is too long for a unix socket. */
char *runtime_path(const char *dir, const char *name, struct err *err);

/* Finds one of our programs ("cellspan-agent", "cellspan-launch-local"): in $CELLSPAN_LIBEXECDIR,
 * beside the running executable, in ../libexec/cellspan from there, in the compiled-in
 * CELLSPAN_LIBEXECDIR, on PATH. The path is the caller's (free()). NULL: the err lists where it was
 * looked for. */
char *runtime_find(const char *program, struct err *err);
/* What is at "../lib/x", say, as seen from the folder of the running executable: its path, the
 * caller's (free()). NULL: nothing is there. */
char *runtime_near(const char *path);

#endif
