/* SPDX-License-Identifier: BSD-3-Clause */
/* cmdline.h - the options of a command line as rows of a table. The parser and --help read the same
 * rows. */
#ifndef BASE_CMDLINE_H
#define BASE_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

struct cmdline_row {
    const char *name;  /* "prefix" for --prefix, "f" for -f; NULL ends the table */
    const char *value; /* what stands for the value in the help; NULL: a switch */
    const char *help;
    /* where in the struct: a const char * for a value (borrowed from argv), a bool for a switch */
    size_t at;
};

/* Gets arguments that no row takes: v[0] and what follows it, n in all. Returns how many of them
 * it takes. 0: none, and cmdline_parse() fails with `why`. */
typedef int (*cmdline_other_f)(void *into, char **v, int n, const char *why);

/* Fills *into from argv[1..]. Accepts "--name value", "--name=value", unambiguous beginnings of
 * long names, and -h for --help. other NULL: only options are taken. -1: the err names the argument
 * and the nearest option. */
MUST_USE int cmdline_parse(const struct cmdline_row *rows, int argc, char **argv,
                           cmdline_other_f other, void *into, struct err *err);
/* Prints the rows as --help shows them. */
void cmdline_help(const struct cmdline_row *rows, FILE *to);

#endif
