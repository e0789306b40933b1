/* cmdline.h - the options of a subcommand as rows of a table; parser and --help read the same
 * rows. */
#ifndef BASE_CMDLINE_H
#define BASE_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct cmdline_row {
    const char *name;  /* "prefix", without the dashes; NULL ends the table */
    const char *value; /* what stands for the value in the help; NULL: a switch */
    const char *help;
    /* where in the struct: a const char * for a value (borrowed from argv), a bool for a switch */
    size_t at;
};

/* Fills *into from argv[1..]; "--name value", "--name=value" and unambiguous beginnings as
 * getopt_long takes them. -1: the err names the token and the nearest option. There are no
 * operands. */
MUST_USE int cmdline_parse(const struct cmdline_row *rows, int argc, char **argv, void *into,
                           struct err *err);
/* Prints the rows as --help shows them. */
void cmdline_help(const struct cmdline_row *rows);

#endif
