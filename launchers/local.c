/* SPDX-License-Identifier: BSD-3-Clause */
/* local.c - the program cellspan-launch-local, the engine "local". This machine is the only node,
 * so the launcher executes the agent in its own place: the agent has its stdin, pid and parent.
 * docs/launchers.md says what every engine is told and must do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime.h"
#include "launchers/launcher.h"

int main(int argc, char **argv)
{
    struct launch_arguments a;
    struct err err = { "" };
    const int read = launch_arguments_read(&a, argc, argv,
                                           "Runs one cellspan agent on this machine.", &err);
    char *program = NULL;

    if (read > 0)
        return 0;
    if (read == 0 && *a.spec)
        (void)err_set(&err, "'%s': local is this machine, and takes nothing after it", a.spec);
    if (read == 0 && a.image)
        (void)err_set(&err, "--in %s: this machine's ranks run in no container", a.image);
    if (err.text[0]) {
        fprintf(stderr, "cellspan-launch-local: %s\n", err.text);
        return LAUNCH_CANNOT;
    }
    program = strchr(a.command[0], '/') ? strdup(a.command[0]) : runtime_find(a.command[0], &err);
    if (program) {
        (void)setenv("CELLSPAN_AGENT", "0", 1);
        report_nodes(1);
        (void)execv(program, a.command);
        (void)err_set(&err, "%s: %s", program, strerror(errno));
    }
    fprintf(stderr, "cellspan-launch-local: %s\n", err.text[0] ? err.text : "out of memory");
    free(program);
    return LAUNCH_FAILED;
}
