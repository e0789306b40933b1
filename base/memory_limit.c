/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/memory_limit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

#define RESERVE        (UINT64_C(64) << 20) /* bytes that stay free for other programs */
#define PARKING_SPARES 10 /* 1/10 of the machine's memory stays free when ranks are parked */
/* without a limit, cgroup v1 shows a number above this one */
#define NO_LIMIT (UINT64_C(1) << 60)

/* A line is "number:controllers:path". */
struct slice memory_cgroup(struct slice text, bool *v2)
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

/* The number in a file of a control group's folder. */
static uint64_t group_number(const char *folder, const char *name)
{
    char path[MEMORY_PATH_MAX + 64], text[64];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_number(file_start(path, text, sizeof text), UINT64_MAX);
}

/* The value of `word` in a control group's memory.stat, in bytes; 0: not there. */
static uint64_t group_stat(const char *folder, const char *word)
{
    char path[MEMORY_PATH_MAX + 64], text[8192];

    snprintf(path, sizeof path, "%s/memory.stat", folder);
    return file_number_of(file_start(path, text, sizeof text), word, 0);
}

/* Inactive pages of files count as used, but the system frees them when memory is needed. */
static uint64_t group_free(const char *folder, bool v2)
{
    const uint64_t limit = group_number(folder, v2 ? "memory.max" : "memory.limit_in_bytes");
    const uint64_t used = group_number(folder, v2 ? "memory.current" : "memory.usage_in_bytes");
    const uint64_t idle = group_stat(folder, v2 ? "inactive_file" : "total_inactive_file");
    const uint64_t held = idle < used ? used - idle : 0;

    if (limit >= NO_LIMIT || used == UINT64_MAX)
        return UINT64_MAX;
    return held < limit ? limit - held : 0;
}

/* The least of all control groups that the agent is in. */
static uint64_t groups_free(void)
{
    char text[4096], folder[MEMORY_PATH_MAX];
    bool v2;
    const struct slice path = memory_cgroup(file_start("/proc/self/cgroup", text, sizeof text),
                                            &v2);
    const char *root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const size_t top = strlen(root);
    uint64_t least = group_free(root, v2); /* in a container this is the container's own group */
    char *slash;

    if (snprintf(folder, sizeof folder, "%s%.*s", root, SLICE_ARG(path)) >= (int)sizeof folder)
        return least;
    while (strlen(folder) > top) {
        const uint64_t here = group_free(folder, v2);

        least = here < least ? here : least;
        if (!(slash = strrchr(folder, '/')))
            break;
        *slash = '\0';
    }
    return least;
}

/* What the machine has left, if a part of its memory, 1/nth, stays free. n = 0: none does. */
static uint64_t machine_free(uint64_t n)
{
    char text[4096];
    const struct slice info = file_start("/proc/meminfo", text, sizeof text);
    const uint64_t kib = file_number_of(info, "MemAvailable", UINT64_MAX);
    const uint64_t spared = n ? file_number_of(info, "MemTotal", 0) / n : 0;

    if (kib == UINT64_MAX)
        return kib;
    return kib > spared ? (kib - spared) * 1024 : 0;
}

static uint64_t least_of(uint64_t machine, const char **why)
{
    const uint64_t group = groups_free();
    const uint64_t least = group < machine ? group : machine;

    *why = group < machine ? "the memory limit of its control group" : "memory";
    if (least == UINT64_MAX)
        return least;
    return least > RESERVE ? least - RESERVE : 0;
}

uint64_t memory_limit_free(const char **why)
{
    return least_of(machine_free(0), why);
}

uint64_t memory_limit_parking(const char **why)
{
    return least_of(machine_free(PARKING_SPARES), why);
}

/* ---- who was ended ---- */

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
    const struct slice path = memory_cgroup(file_start("/proc/self/cgroup", text, sizeof text),
                                            &v2);
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
