/* arguments.c - see arguments.h. */
#include "launchers/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"

#define RANKS_LIMIT 65536 /* base/ranks.h: a rank number is below this */

static const char usage[] = "[--spec SPEC] [--ranks N] -- COMMAND [ARG...]";

static int read_ranks(struct launch_arguments *a, const char *text, struct err *err)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < 1 || n > RANKS_LIMIT)
        return err_set(err, "--ranks %s: a number from 1 to %d is wanted", text, RANKS_LIMIT);
    a->ranks = (unsigned)n;
    return 0;
}

int launch_arguments_read(struct launch_arguments *a, char **argv, const char *what,
                          struct err *err)
{
    const char *const name = path_name(argv[0]);
    char **arg = argv + 1;

    *a = (struct launch_arguments){ .spec = "" };
    for (; *arg && strcmp(*arg, "--") != 0; arg++) {
        if (strcmp(*arg, "--help") == 0) {
            printf("usage: %s %s\n%s\n", name, usage, what);
            return 1;
        }
        if (strcmp(*arg, "--spec") != 0 && strcmp(*arg, "--ranks") != 0)
            return err_set(err, "unknown option %s; usage: %s %s", *arg, name, usage);
        if (!arg[1])
            return err_set(err, "%s needs a value; usage: %s %s", *arg, name, usage);
        if (strcmp(*arg, "--spec") == 0)
            a->spec = *++arg;
        else if (read_ranks(a, *++arg, err) < 0)
            return -1;
    }
    if (!*arg || !arg[1])
        return err_set(err, "there is no COMMAND; usage: %s %s", name, usage);
    a->command = arg + 1;
    return 0;
}
