/* SPDX-License-Identifier: BSD-3-Clause */
/* oom.c - finds out whether an out-of-memory killer was active (declared in death_cause.h). */
#include "worker/agent/processes/death_cause.h"

#include <stdio.h>
#include <unistd.h>

#include "base/process.h"

/* A line is "number:controllers:path". */
struct slice oom_cgroup(struct slice text, bool *v2)
{
    struct slice found = slice_of("", 0);

    *v2 = false;
    while (text.n) {
        struct slice path = slice_line(&text), controllers;

        (void)slice_cut(&path, ':');
        controllers = slice_cut(&path, ':');
        if (slice_is(controllers, "memory")) {
            *v2 = false;
            return path;
        }
        if (!controllers.n && path.n) {
            *v2 = true;
            found = path;
        }
    }
    return found;
}

static uint64_t read_count(const char *path, const char *word)
{
    char text[8192];

    return path[0] ? file_number_of(file_start(path, text, sizeof text), word, 0) : 0;
}

/* In a container the path may be the host's, while only the container's own group is mounted. Then
 * the root of the mount is used. */
static void find_cgroup(struct oom *o)
{
    char text[4096];
    bool v2;
    const struct slice path = oom_cgroup(file_start("/proc/self/cgroup", text, sizeof text), &v2);
    const char *root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const char *file = v2 ? "memory.events" : "memory.oom_control";

    snprintf(o->cgroup, sizeof o->cgroup, "%s%.*s/%s", root, SLICE_ARG(path), file);
    if (access(o->cgroup, R_OK) < 0)
        snprintf(o->cgroup, sizeof o->cgroup, "%s/%s", root, file);
    if (access(o->cgroup, R_OK) < 0)
        o->cgroup[0] = '\0';
}

void oom_init(struct oom *o)
{
    find_cgroup(o);
    o->cgroup_kills = read_count(o->cgroup, "oom_kill");
    o->system_kills = read_count("/proc/vmstat", "oom_kill");
}

enum oom_killer oom_check(struct oom *o)
{
    const uint64_t cgroup = read_count(o->cgroup, "oom_kill");
    const uint64_t system = read_count("/proc/vmstat", "oom_kill");
    const enum oom_killer who = cgroup > o->cgroup_kills   ? OOM_CGROUP
                                : system > o->system_kills ? OOM_SYSTEM
                                                           : OOM_NONE;

    o->cgroup_kills = cgroup;
    o->system_kills = system;
    return who;
}
