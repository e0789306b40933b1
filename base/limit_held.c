/* SPDX-License-Identifier: BSD-3-Clause */
/* limit_held.c - finds the limit that keeps a process from starting others or from getting memory
 * (declared in process.h). */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/process.h"

#define NEAR  2u                   /* tasks: a process that did not start does not count any more */
#define STACK (UINT64_C(16) << 20) /* bytes that a thread, or a bit of Python, may need */

/* The processes and threads of this user. */
static uint64_t tasks_of_user(void)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    uint64_t n = 0;

    while (dir && (entry = readdir(dir))) {
        char path[300], text[4096];
        struct slice status;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%s/status", entry->d_name);
        status = file_start(path, text, sizeof text);
        if (file_number_of(status, "Uid:", UINT64_MAX) == getuid())
            n += file_number_of(status, "Threads:", 0);
    }
    if (dir)
        (void)closedir(dir);
    return n;
}

static bool user_held(char *text, size_t size)
{
    struct rlimit limit;
    uint64_t has;

    if (getuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;
    has = tasks_of_user();
    if (has + NEAR < limit.rlim_cur)
        return false;
    snprintf(text, size,
             "this user may have %" PRIu64 " processes and threads (RLIMIT_NPROC, ulimit -u), and "
             "has %" PRIu64,
             (uint64_t)limit.rlim_cur, has);
    return true;
}

static bool group_held(const char *folder, char *text, size_t size)
{
    char path[4200], number[64];
    uint64_t most, has;

    snprintf(path, sizeof path, "%s/pids.max", folder);
    most = file_number(file_start(path, number, sizeof number), UINT64_MAX);
    snprintf(path, sizeof path, "%s/pids.current", folder);
    has = file_number(file_start(path, number, sizeof number), 0);
    if (most == UINT64_MAX || has + NEAR < most)
        return false;
    snprintf(text, size,
             "the cgroup or container may have %" PRIu64 " processes and threads (pids.max), and "
             "has %" PRIu64,
             most, has);
    return true;
}

/* The cgroup of this process and those around it; in a container, its root. */
static bool groups_held(char *text, size_t size)
{
    char known[4096], folder[4160];
    struct slice rest = file_start("/proc/self/cgroup", known, sizeof known);

    while (rest.n) {
        struct slice path = slice_line(&rest), controllers;
        const char *root = "/sys/fs/cgroup";

        (void)slice_cut(&path, ':');
        controllers = slice_cut(&path, ':');
        if (slice_is(controllers, "pids"))
            root = "/sys/fs/cgroup/pids";
        else if (controllers.n)
            continue;
        for (;;) {
            snprintf(folder, sizeof folder, "%s%.*s", root, SLICE_ARG(path));
            if (group_held(folder, text, size))
                return true;
            while (path.n && path.p[path.n - 1] != '/')
                path.n--;
            if (!path.n)
                break;
            path.n--;
        }
    }
    return false;
}

static bool memory_held(char *text, size_t size)
{
    char known[128];
    const uint64_t has = file_number(file_start("/proc/self/statm", known, sizeof known), 0) *
                         (uint64_t)sysconf(_SC_PAGESIZE);
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
        has + STACK < limit.rlim_cur)
        return false;
    snprintf(text, size,
             "a process may have %" PRIu64 " MiB of address space (RLIMIT_AS, ulimit -v), and this "
             "one has %" PRIu64,
             (uint64_t)limit.rlim_cur >> 20, has >> 20);
    return true;
}

bool limit_held(char *text, size_t size)
{
    text[0] = '\0';
    return user_held(text, size) || groups_held(text, size) || memory_held(text, size);
}
