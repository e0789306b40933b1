/* cmdline.h - parses the options of a command line by a table. --help is printed from the same
 * table. */
#ifndef BASE_CMDLINE_H
#define BASE_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct cmdline_row {
    const char *name;  /* "prefix", without the dashes; NULL ends the table */
    const char *value; /* the value's name in the help; NULL: a switch */
    const char *help;
    /* where in the struct: a const char * for a value (borrowed from argv), a bool for a switch */
    size_t at;
};

/* Fills *into from argv[1..]. Accepts "--name value", "--name=value" and unambiguous abbreviations,
 * as getopt_long does, but no operands. -1: *err names the argument and the nearest option. */
MUST_USE int cmdline_parse(const struct cmdline_row *rows, int argc, char **argv, void *into,
                           struct err *err);
/* Prints the rows as --help shows them. */
void cmdline_help(const struct cmdline_row *rows);

#endif
