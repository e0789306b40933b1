/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_arguments.c - parses a launcher's command line (declared in launcher.h). */
#include "launchers/launcher.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmdline.h"
#include "base/path.h"
#include "base/process.h"
#include "config.h"

#define RANKS_LIMIT 65536 /* base/rank_set.h: a rank number is below this */

struct launch_line {
    struct launch_arguments a;
    const char *ranks;
    bool help, version;
};

static const struct cmdline_row rows[] = {
    { "spec", "SPEC", "where to start agents, in the engine's own words",
      offsetof(struct launch_line, a.spec) },
    { "ranks", "N", "how many ranks there will be", offsetof(struct launch_line, ranks) },
    { "in", "IMAGE", "start agents in a container of it (ssh and slurm only)",
      offsetof(struct launch_line, a.image) },
    { "help", NULL, "this text", offsetof(struct launch_line, help) },
    { "version", NULL, "print the version", offsetof(struct launch_line, version) },
    { NULL, NULL, NULL, 0 },
};

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

static int take_command(void *into, char **v, int n, const char *why)
{
    (void)why;
    if (strcmp(v[0], "--") != 0)
        return 0;
    ((struct launch_line *)into)->a.command = v + 1;
    return n;
}

int launch_arguments_read(struct launch_arguments *a, int argc, char **argv, const char *what,
                          struct err *err)
{
    const char *const name = path_name(argv[0]);
    struct launch_line line = { .a = { .spec = "" } };

    (void)fd_open_standard();
    if (cmdline_parse(rows, argc, argv, take_command, &line, err) < 0 ||
        (line.ranks && read_ranks(&line.a, line.ranks, err) < 0))
        return -1;
    if (line.help) {
        printf("usage: %s [--spec SPEC] [--ranks N] [--in IMAGE] -- COMMAND [ARG...]\n\n%s\n\n",
               name, what);
        cmdline_help(rows, stdout);
        return 1;
    }
    if (line.version) {
        printf("%s %s\n", name, CELLSPAN_VERSION);
        return 1;
    }
    if (!line.a.command || !line.a.command[0])
        return err_set(err, "there is no COMMAND; %s --help shows where it stands", name);
    *a = line.a;
    return 0;
}
