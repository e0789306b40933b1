/* cellspan-launch-local - the engine "local": this machine is the one node, so the agent is executed in place. Its
 * stdin, pid and parent are the launcher's own; README.md says what every engine is told and must do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime.h"

static int usage(FILE *to, int status)
{
    fputs("usage: cellspan-launch-local --agents 1 -- COMMAND [ARG...]\n"
          "Runs one cellspan agent on this machine.\n", to);
    return status;
}

/* The index of COMMAND; 0: nothing to run, *status is what main returns. */
static int read_args(int argc, char **argv, int *status)
{
    int i = 1;

    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            *status = usage(stdout, 0);
            return 0;
        }
        if (strcmp(argv[i], "--agents") != 0 || i + 1 >= argc) {
            *status = usage(stderr, 2);
            return 0;
        }
        if (strcmp(argv[++i], "1") != 0) {
            fprintf(stderr, "cellspan-launch-local: --agents %s: this machine is one node and takes one agent\n", argv[i]);
            *status = 2;
            return 0;
        }
    }
    if (i + 1 < argc)
        return i + 1;
    *status = usage(stderr, 2);
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = { "" };
    int status = 2;
    const int at = read_args(argc, argv, &status);
    char *program;

    if (at == 0)
        return status;
    program = strchr(argv[at], '/') ? strdup(argv[at]) : runtime_find(argv[at], &err);
    if (!program) {
        fprintf(stderr, "cellspan-launch-local: %s\n", err.text[0] ? err.text : "out of memory");
        return 127;
    }
    (void)execv(program, argv + at);
    fprintf(stderr, "cellspan-launch-local: %s: %s\n", program, strerror(errno));
    free(program);
    return 127;
}
