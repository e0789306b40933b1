/* launch_arguments.h - parses a launcher's command line: [--spec SPEC] [--ranks N] -- COMMAND
 * [ARG...]. See README.md. */
#ifndef LAUNCHERS_LAUNCH_ARGUMENTS_H
#define LAUNCHERS_LAUNCH_ARGUMENTS_H

#include "base/err.h"

#define LAUNCH_CANNOT 2 /* exit status: the engine can't do what was requested */
#define LAUNCH_FAILED 1

struct launch_arguments {
    const char *spec; /* "" if not given; all pointers here are borrowed from argv */
    unsigned ranks;   /* 0: not given */
    char **command;   /* NULL-terminated, at least one word */
};

/* Reads main's arguments. 0: done; 1: --help was printed; -1: *err says what is wrong. what: one
 * sentence for --help. */
MUST_USE int launch_arguments_read(struct launch_arguments *a, int argc, char **argv,
                                   const char *what, struct err *err);

#endif
