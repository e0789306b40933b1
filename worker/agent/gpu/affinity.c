/* SPDX-License-Identifier: BSD-3-Clause */
/* affinity.c - binds a rank to the processors near its GPU (declared in allocations.h). */
#ifdef __linux__
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#endif
#include "worker/agent/gpu/allocations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rank_set.h"

#ifdef __linux__
#define CPUS_MAX 4096

struct cpus {
    cpu_set_t set[CPUS_MAX / CPU_SETSIZE];
};

/* Sets `near` to the CPUs of `mine` that are in the list. 0: some, but not all, of `mine` are. */
static int choose(const struct cpus *mine, const struct ranks *list, struct cpus *near)
{
    RANKS_EACH (cpu, list)
        if (CPU_ISSET_S((size_t)cpu, sizeof mine->set, mine->set))
            CPU_SET_S((size_t)cpu, sizeof near->set, near->set);
    return CPU_COUNT_S(sizeof near->set, near->set) > 0 &&
                   !CPU_EQUAL_S(sizeof mine->set, mine->set, near->set)
               ? 0
               : -1;
}

/* Binds all threads of the process. Returns how many. */
static int bind_threads(pid_t pid, const struct cpus *near)
{
    char path[64];
    const struct dirent *e;
    DIR *dir;
    int n = 0;

    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    if (!(dir = opendir(path)))
        return sched_setaffinity(pid, sizeof near->set, near->set) == 0;
    while ((e = readdir(dir))) {
        const pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);

        if (thread > 0 && sched_setaffinity(thread, sizeof near->set, near->set) == 0)
            n++;
    }
    closedir(dir);
    return n;
}

static int bind_to(pid_t pid, const struct ranks *list, struct err *err)
{
    struct cpus mine, near;
    int rc;

    memset(&near, 0, sizeof near);
    if (sched_getaffinity(pid, sizeof mine.set, mine.set) < 0)
        return err_set(err, "sched_getaffinity: %s", strerror(errno));
    if (choose(&mine, list, &near) < 0)
        return 0;
    rc = bind_threads(pid, &near) > 0 ? 1 : err_set(err, "sched_setaffinity: %s", strerror(errno));
    (void)bind_threads(pid, &near); /* again: an unbound thread may have started another one */
    return rc;
}

int affinity_bind(pid_t pid, const char *cpus, struct err *err)
{
    struct ranks list = RANKS_INIT;
    int rc = 0;

    if (pid > 0 && cpus[0])
        rc = ranks_parse(&list, cpus, CPUS_MAX, err) < 0 ? -1 : bind_to(pid, &list, err);
    ranks_release(&list);
    return rc;
}
#else
int affinity_bind(pid_t pid, const char *cpus, struct err *err)
{
    (void)pid;
    (void)cpus;
    (void)err;
    return 0; /* this system can't bind processes to processors */
}
#endif
