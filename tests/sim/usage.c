/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/usage.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first number of the file. */
static uint64_t number_in(const char *path)
{
    FILE *f = fopen(path, "r");
    uint64_t n = 0;

    if (f && fscanf(f, "%" SCNu64, &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

/* schedstat counts nanoseconds, stat only hundredths of a second. */
uint64_t usage_cpu_ns(pid_t pid)
{
    char path[512];
    const struct dirent *entry;
    uint64_t sum = 0;
    DIR *tasks;

    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    if (!(tasks = opendir(path)))
        return 0;
    while ((entry = readdir(tasks)))
        if (isdigit((unsigned char)entry->d_name[0])) {
            snprintf(path, sizeof path, "/proc/%ld/task/%s/schedstat", (long)pid, entry->d_name);
            sum += number_in(path);
        }
    closedir(tasks);
    return sum;
}

double usage_mib(pid_t pid, const char *which)
{
    char path[64], line[256];
    const size_t n = strlen(which);
    double mib = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    if (!(f = fopen(path, "r")))
        return 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, which, n) == 0 && line[n] == ':')
            mib = strtod(line + n + 1, NULL) / 1024;
    fclose(f);
    return mib;
}

unsigned usage_children(pid_t pid)
{
    char path[512];
    unsigned n = 0;
    long child;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    if (!(f = fopen(path, "r")))
        return 0;
    while (fscanf(f, "%ld", &child) == 1)
        n += 1 + usage_children((pid_t)child);
    fclose(f);
    return n;
}
