/* oom.c - see death_cause.h. */
#include "worker/agent/processes/death_cause.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

uint64_t oom_parse(struct slice text, const char *word)
{
    const size_t n = strlen(word);

    while (text.n) {
        const struct slice line = slice_line(&text);
        uint64_t value = 0;

        if (line.n <= n || memcmp(line.p, word, n) != 0 || line.p[n] != ' ')
            continue;
        for (size_t i = n + 1; i < line.n && line.p[i] >= '0' && line.p[i] <= '9'; i++)
            value = value * 10 + (uint64_t)(line.p[i] - '0');
        return value;
    }
    return 0;
}

/* A line is "number:controllers:path". */
struct slice oom_cgroup(struct slice text, bool *v2)
{
    struct slice found = slice_of("", 0);

    *v2 = false;
    while (text.n) {
        const struct slice line = slice_line(&text);
        const char *first = line.n ? memchr(line.p, ':', line.n) : NULL;
        const char *second = first ? memchr(first + 1, ':', (size_t)(line.p + line.n - first - 1))
                                   : NULL;
        struct slice controllers;

        if (!second)
            continue;
        controllers = slice_of(first + 1, (size_t)(second - first - 1));
        if (slice_is(controllers, "memory")) {
            *v2 = false;
            return slice_of(second + 1, (size_t)(line.p + line.n - second - 1));
        }
        if (controllers.n == 0) {
            *v2 = true;
            found = slice_of(second + 1, (size_t)(line.p + line.n - second - 1));
        }
    }
    return found;
}

static uint64_t read_count(const char *path, const char *word)
{
    char text[8192];

    return path[0] ? oom_parse(file_start(path, text, sizeof text), word) : 0;
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
