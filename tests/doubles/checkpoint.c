/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint.c - libcuda's functions for another process's GPU memory, without a driver. A process
 * uses CUDA if a line `process` names it. Its state is in the file CELLSPAN_DOUBLE_GPUS.states,
 * which all processes share: a line each, "PID STATE STARTED", so that a process that is gone, or
 * another one with its number, has none. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/doubles/control.h"

#ifndef DOUBLE_OLD

#define EXPORT __attribute__((visibility("default")))

enum { OK, INVALID = 1, MEMORY = 2, NOT_READY = 600, ILLEGAL_STATE = 401 };
enum { RUNNING, LOCKED, AWAY, FAILED };

struct args {
    unsigned timeout_ms, zero;
    unsigned long long zeros[7];
};

/* Field 22 of /proc/PID/stat; 0: it is gone. */
static unsigned long long started(int pid)
{
    char path[64], text[1024], state = 'X';
    unsigned long long start = 0;
    const char *at = NULL;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!(f = fopen(path, "re")))
        return 0;
    if (fgets(text, sizeof text, f))
        at = strrchr(text, ')');
    fclose(f);
    if (!at || sscanf(at + 1,
                      " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                      "%*s %llu",
                      &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : start;
}

static bool uses_cuda(int pid)
{
    long number[3];

    for (unsigned i = 0; control_line("process", i, number); i++)
        if (number[1] == pid)
            return started(pid) != 0;
    return false;
}

static FILE *open_states(void)
{
    const char *path = getenv("CELLSPAN_DOUBLE_GPUS");
    char name[4096];
    int fd;

    snprintf(name, sizeof name, "%s.states", path ? path : "/dev/null");
    if ((fd = open(name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) < 0)
        return NULL;
    (void)flock(fd, LOCK_EX);
    return fdopen(fd, "a+");
}

/* The last line counts. */
static int state_in(FILE *f, int pid)
{
    const unsigned long long now = started(pid);
    unsigned long long then;
    int number, state, last = RUNNING;

    rewind(f);
    while (fscanf(f, "%d %d %llu", &number, &state, &then) == 3)
        if (number == pid && then == now)
            last = state;
    return last;
}

/* From one state to another, if the driver lets it. */
static int step(const char *function, int pid, const struct args *args, int from, int to)
{
    static const unsigned long long none[7];
    const long fails = control_of(function, pid, 0); /* this process alone */
    FILE *f;
    int result = OK;

    if (!args || args->zero || memcmp(args->zeros, none, sizeof none) != 0)
        return INVALID;
    if (!uses_cuda(pid) || !(f = open_states()))
        return INVALID;
    if (state_in(f, pid) != from)
        result = ILLEGAL_STATE;
    else if (fails)
        result = fails < 0 ? 999 : (int)fails;
    else
        result = control_call(function);
    if (result == OK || fails < 0)
        fprintf(f, "%d %d %llu\n", pid, fails < 0 ? FAILED : to, started(pid));
    fclose(f);
    return result;
}

EXPORT int cuCheckpointProcessGetState(int pid, int *state);
EXPORT int cuCheckpointProcessGetState(int pid, int *state)
{
    FILE *f;

    if (!uses_cuda(pid) || !(f = open_states()))
        return INVALID;
    *state = state_in(f, pid);
    fclose(f);
    return control_call(__func__);
}

EXPORT int cuCheckpointProcessLock(int pid, struct args *args);
EXPORT int cuCheckpointProcessLock(int pid, struct args *args)
{
    return step(__func__, pid, args, RUNNING, LOCKED);
}

EXPORT int cuCheckpointProcessCheckpoint(int pid, struct args *args);
EXPORT int cuCheckpointProcessCheckpoint(int pid, struct args *args)
{
    return step(__func__, pid, args, LOCKED, AWAY);
}

EXPORT int cuCheckpointProcessRestore(int pid, struct args *args);
EXPORT int cuCheckpointProcessRestore(int pid, struct args *args)
{
    return step(__func__, pid, args, AWAY, LOCKED);
}

EXPORT int cuCheckpointProcessUnlock(int pid, struct args *args);
EXPORT int cuCheckpointProcessUnlock(int pid, struct args *args)
{
    return step(__func__, pid, args, LOCKED, RUNNING);
}

#endif
