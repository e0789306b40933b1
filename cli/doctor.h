/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor.h - what `cellspan doctor` looks at. Each check prints its lines by finding_say(). */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/private.h"

enum finding { FINE, NOTE, BAD };

struct doctor {
    const char *python;              /* --python as the user wrote it; NULL: none */
    const char *on;                  /* --on; NULL: none */
    struct python_interpreter found; /* what doctor_python() has found; path NULL: none */
    unsigned notes, bad;             /* how many lines of these */
};

/* ---- finding.c ---- */
/* Prints one line: what was looked at, and what was found. fix: what to do, on a line of its own;
 * NULL: nothing. */
void finding_say(struct doctor *d, enum finding f, const char *what, const char *fix,
                 const char *format, ...) PRINTF_LIKE(5, 6);

/* ---- doctor_machine.c: memory, disk, limits, ports, programs ---- */
void doctor_machine(struct doctor *d);
/* ---- doctor_jupyter.c: kernelspecs, and cellspan's settings ---- */
void doctor_jupyter(struct doctor *d);
/* ---- doctor_python.c: the notebook's Python and its packages; the ranks of --on ---- */
void doctor_python(struct doctor *d);
void doctor_on(struct doctor *d);

#endif
