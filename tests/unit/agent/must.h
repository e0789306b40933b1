/* SPDX-License-Identifier: BSD-3-Clause */
/* must.h - helpers for doubles and tests of the agent: fail with a message, get the time, wait for
 * a process to end. */
#ifndef TESTS_UNIT_AGENT_MUST_H
#define TESTS_UNIT_AGENT_MUST_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* Ends the test, with errno's words, unless `good`. */
static inline void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "Bail out! %s: %s\n", what, strerror(errno));
    exit(99);
}

static inline int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Within 30 s. */
static inline bool is_gone(pid_t pid)
{
    for (int i = 0; i < 3000; i++) {
        if (kill(pid, 0) < 0 && errno == ESRCH)
            return true;
        usleep(10000);
    }
    return false;
}

/* The agent that was built. Returns `to`. */
static inline const char *agent_path(char *to, size_t size)
{
    const char *dir = getenv("top_builddir");

    snprintf(to, size, "%s/cellspan-agent", dir ? dir : ".");
    return to;
}

#endif
