/* arguments.h - the command line of cellspan-kernel. */
#ifndef KERNEL_ARGUMENTS_H
#define KERNEL_ARGUMENTS_H

#include "base/err.h"

struct arguments {
    const char *connection_file; /* borrowed from argv */
    const char *python;
    const char *python_version;
    /* IPython's settings, as they were given; borrowed from argv, whose front they take */
    char **trait;
    int n_traits;
};

/* What home finds them in: a JSON list. Home takes it out of its environment. */
#define ARGUMENTS_VARIABLE  "CELLSPAN_IPYTHON_ARGS"
#define CONNECTION_VARIABLE "CELLSPAN_CONNECTION_FILE" /* for %connect_info */

/* What it doesn't know is ignored, with a line on stderr. 0; 1: --help or --version was answered on
 * stdout; -1: *err names the argument. */
MUST_USE int arguments_parse(struct arguments *o, int argc, char **argv, struct err *err);
/* Puts the traits and the connection file's path into this process' environment, which the agent
 * and home inherit. -1: *err says why. */
MUST_USE int arguments_hand_on(const struct arguments *o, struct err *err);

#endif
