/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c - the command line of cellspan-sim, for people and tests. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/sim/part.h"
#include "tests/sim/scenes.h"

#define AGENTS_MAX 4096ul
#define FILES_EACH 3u /* descriptors that the kernel has open for an agent */

struct options {
    struct driver_to to;
    unsigned agents, repeat, outage;
    bool figures, help;
};

static void print_help(void)
{
    puts(
        "usage: cellspan-sim [--agents N] [--kernel PATH] [--figures [--repeat R] [--outage S]]\n\n"
        "Drives one kernel with N (1000) simulated agents of 8 ranks each, and prints TAP: launch, fan-out and "
        "gather, merged\n"
        "output, a slow one, failures and deaths. --figures measures instead, and prints JSON (R cells of each kind, "
        "20).\n"
        "With --outage nothing passes on this network namespace's lo for S seconds, at the end.\n"
        "The kernel is the one that is installed, or PATH.");
}

static int take_number(const char *text, unsigned long most, unsigned *out)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);

    if (*end || n == 0 || n > most)
        return -1;
    *out = (unsigned)n;
    return 0;
}

static int parse(struct options *o, int argc, char **argv)
{
    for (int k = 1; k < argc; k++) {
        const char *value = k + 1 < argc ? argv[k + 1] : "";
        int rc = 0;

        if (strcmp(argv[k], "--help") == 0)
            o->help = true;
        else if (strcmp(argv[k], "--figures") == 0)
            o->figures = true;
        else if (strcmp(argv[k], "--agents") == 0)
            rc = take_number(value, AGENTS_MAX, &o->agents), k++;
        else if (strcmp(argv[k], "--repeat") == 0)
            rc = take_number(value, 10000, &o->repeat), k++;
        else if (strcmp(argv[k], "--outage") == 0)
            rc = take_number(value, 100, &o->outage), k++;
        else if (strcmp(argv[k], "--kernel") == 0 && *value)
            o->to.kernel = value, k++;
        else
            rc = -1;
        if (rc < 0) {
            fprintf(stderr, "cellspan-sim: %s %s: see --help\n", argv[k < argc ? k : argc - 1],
                    value);
            return -1;
        }
    }
    return 0;
}

/* Can this machine hold so many connections in one process? */
static int check_files(unsigned agents)
{
    const rlim_t wanted = 256 + (rlim_t)FILES_EACH * agents;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max >= wanted)
        return 0;
    fprintf(
        stderr,
        "cellspan-sim: %u agents need %lu open files in the kernel, and ulimit -Hn is %lu here: raise it, or take "
        "fewer with --agents\n",
        agents, (unsigned long)wanted, (unsigned long)files.rlim_max);
    return -1;
}

int driver_main(int argc, char **argv)
{
    struct options o = { .agents = 1000, .repeat = 20 };
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (n <= 0 || parse(&o, argc, argv) < 0)
        return 2;
    self[n] = '\0';
    o.to.self = self;
    if (o.help) {
        print_help();
        return 0;
    }
    if (check_files(o.agents) < 0)
        return 2;
    return o.figures ? figures_run(&o.to, o.agents, o.repeat, o.outage)
                     : scenes_run(&o.to, o.agents);
}
