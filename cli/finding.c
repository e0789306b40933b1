/* SPDX-License-Identifier: BSD-3-Clause */
/* finding.c - prints what a check has found (declared in doctor.h). */
#include <stdarg.h>
#include <stdio.h>

#include "cli/doctor.h"

void finding_say(struct doctor *d, enum finding f, const char *what, const char *fix,
                 const char *format, ...)
{
    static const char *const mark[] = { [FINE] = "ok", [NOTE] = "note", [BAD] = "bad" };
    va_list args;

    d->notes += f == NOTE;
    d->bad += f == BAD;
    printf("%-5s %-14s ", mark[f], what);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    if (fix)
        printf("%-5s %-14s -> %s\n", "", "", fix);
}
