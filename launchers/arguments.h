/* arguments.h - how the kernel calls a launcher: [--spec SPEC] [--ranks N] -- COMMAND [ARG...]. See
 * README.md. */
#ifndef LAUNCHERS_ARGUMENTS_H
#define LAUNCHERS_ARGUMENTS_H

#include <stdint.h>

#include "base/err.h"

#define LAUNCH_CANNOT 2 /* exit status: asked for something that the engine can't do */
#define LAUNCH_FAILED 1

struct launch_arguments {
    const char *spec; /* "" when it was not given; borrowed from argv, as all here */
    unsigned ranks;   /* 0: not given */
    char **command;   /* NULL-terminated, at least one word */
};

/* Reads main's arguments. 0; or 1: --help was printed; or -1: *err says what is wrong. `what` is
 * one sentence for --help. */
MUST_USE int launch_arguments_read(struct launch_arguments *a, char **argv, const char *what,
                                   struct err *err);
/* The variable's value, in whole seconds, as nanoseconds; where it is not set, `normally`
 * seconds. */
MUST_USE int launch_seconds(const char *variable, unsigned long normally, uint64_t *ns,
                            struct err *err);

#endif
