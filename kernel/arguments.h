/* arguments.h - the command line of cellspan-kernel. */
#ifndef KERNEL_ARGUMENTS_H
#define KERNEL_ARGUMENTS_H

#include "base/err.h"

struct arguments {
    const char *connection_file; /* borrowed from argv */
    const char *python;
    const char *python_version;
};

/* 0; 1: --help or --version was answered on stdout; -1: *err names the argument. */
MUST_USE int arguments_parse(struct arguments *o, int argc, char **argv, struct err *err);

#endif
