/* interpreter.h - the Python that a notebook gets: which one, and whether it has what workers
 * need. */
#ifndef CLI_INTERPRETER_H
#define CLI_INTERPRETER_H

#include "base/err.h"

struct python_interpreter {
    char *path;    /* absolute; within a venv it is the venv's, links are not followed */
    char *version; /* "3.11.7" */
    char *prefix;  /* its sys.prefix */
};

/* asked: a path, a name on PATH, or NULL for the default: the active venv's or conda environment's,
 * the one beside this program, the one that cellspan was built for, python3 on PATH. -1: it can't
 * be run, is older than 3.9, or lacks modules; the err says the command that installs them. On
 * failure there is nothing to release. */
MUST_USE int interpreter_find(struct python_interpreter *p, const char *asked, struct err *err);
void interpreter_release(struct python_interpreter *p);

#endif
