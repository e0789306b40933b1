/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The rest of the nth line that begins with `word`, in `line`; false: there are fewer. */
static bool find(const char *word, unsigned nth, char line[static 256], char **rest)
{
    const char *path = getenv("CELLSPAN_DOUBLE_GPUS");
    FILE *f = path ? fopen(path, "re") : NULL;
    const size_t n = strlen(word);
    bool found = false;

    while (f && !found && fgets(line, 256, f))
        found = strncmp(line, word, n) == 0 && line[n] == ' ' && nth-- == 0;
    if (f)
        fclose(f);
    *rest = line + n;
    return found;
}

bool control_line(const char *word, unsigned nth, long number[static 3])
{
    char line[256], *at;

    if (!find(word, nth, line, &at))
        return false;
    for (int i = 0; i < 3; i++) {
        number[i] = strtol(at, &at, strcmp(word, "cpus") == 0 && i == 1 ? 16 : 10);
        if (i == 0 && *at == '.')
            number[0] += 100 * (strtol(at + 1, &at, 10) + 1);
    }
    return true;
}

long control_of(const char *word, long gpu, long otherwise)
{
    long number[3];

    for (unsigned i = 0; control_line(word, i, number); i++)
        if (number[0] == gpu)
            return number[1];
    return otherwise;
}

/* The number behind the function's name on a line that begins with `word`; -1: there is none. */
static long about(const char *word, const char *function)
{
    char line[256], *at;

    for (unsigned i = 0; find(word, i, line, &at); i++) {
        at += strspn(at, " ");
        if (strncmp(at, function, strlen(function)) == 0 && strchr(" \n", at[strlen(function)]))
            return strtol(at + strlen(function), NULL, 10);
    }
    return -1;
}

int control_call(const char *function)
{
    const long ms = about("hang", function), result = about("fail", function);

    if (about("crash", function) >= 0)
        _exit(139);
    if (ms > 0)
        usleep((useconds_t)ms * 1000);
    return result > 0 ? (int)result : 0;
}
