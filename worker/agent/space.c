/* space.c - see space.h. */
#include "worker/agent/space.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/agent/oom.h"

#define RESERVE  (UINT64_C(64) << 20) /* bytes that are left to others */
#define NO_LIMIT (UINT64_C(1) << 60)  /* what cgroup v1 shows where there is none is above this */

static struct slice read_file(const char *path, char *to, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got;

    if (fd < 0)
        return slice_of(to, 0);
    while (n < size && (got = read(fd, to + n, size - n)) > 0)
        n += (size_t)got;
    close(fd);
    return slice_of(to, n);
}

uint64_t space_number(struct slice text)
{
    uint64_t value = 0;
    size_t i = 0;

    for (; i < text.n && text.p[i] >= '0' && text.p[i] <= '9'; i++)
        value = value > UINT64_MAX / 16 ? value : value * 10 + (uint64_t)(text.p[i] - '0');
    return i == 0 ? UINT64_MAX : value;
}

uint64_t space_meminfo(struct slice text, const char *word)
{
    const size_t n = strlen(word);

    while (text.n > n) {
        const char *end = memchr(text.p, '\n', text.n);

        if (memcmp(text.p, word, n) == 0 && text.p[n] == ':') {
            const char *at = text.p + n + 1;
            uint64_t kib;

            while (at < text.p + text.n && *at == ' ')
                at++;
            kib = space_number(slice_of(at, (size_t)(text.p + text.n - at)));
            return kib == UINT64_MAX ? kib : kib * 1024;
        }
        if (!end)
            break;
        text = slice_of(end + 1, text.n - (size_t)(end + 1 - text.p));
    }
    return UINT64_MAX;
}

/* Of a file in a control group's folder. */
static uint64_t group_number(const char *folder, const char *name)
{
    char path[OOM_PATH_MAX + 64], text[64];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return space_number(read_file(path, text, sizeof text));
}

/* The word of a control group's memory.stat, in bytes; 0: not there. */
static uint64_t group_stat(const char *folder, const char *word)
{
    char path[OOM_PATH_MAX + 64], text[8192];

    snprintf(path, sizeof path, "%s/memory.stat", folder);
    return oom_parse(read_file(path, text, sizeof text), word);
}

/* Pages of files that nobody uses count, but are given up at once. */
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

/* The tightest of the groups that we are in. */
static uint64_t groups_free(void)
{
    char text[4096], folder[OOM_PATH_MAX];
    bool v2;
    const struct slice path = oom_cgroup(read_file("/proc/self/cgroup", text, sizeof text), &v2);
    const char *root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const size_t top = strlen(root);
    uint64_t least = group_free(root, v2); /* in a container the root of the mount is ours */
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

uint64_t space_free(const char **why)
{
    char text[4096];
    const uint64_t machine = space_meminfo(read_file("/proc/meminfo", text, sizeof text), "MemAvailable");
    const uint64_t group = groups_free();
    const uint64_t least = group < machine ? group : machine;

    *why = group < machine ? "the memory limit of its control group" : "memory";
    if (least == UINT64_MAX)
        return least;
    return least > RESERVE ? least - RESERVE : 0;
}
