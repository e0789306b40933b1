/* SPDX-License-Identifier: BSD-3-Clause */
/* cut.c - shuts down connections of this process, so that a collective that waits returns with an
 * error (declared in parts.h). */
#include "worker/ext/parts.h"

#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

static uint64_t u64_at(const char *p)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 8; i++)
        v |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return v;
}

static bool listed(struct slice inodes, uint64_t inode)
{
    for (size_t at = 0; at + 8 <= inodes.n; at += 8) {
        if (u64_at(inodes.p + at) == inode)
            return true;
    }
    return false;
}

unsigned cut_sockets(struct slice inodes)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    unsigned n = 0;

    if (!dir && !(dir = opendir("/dev/fd")))
        return 0;
    while ((entry = readdir(dir))) {
        char *end;
        const long fd = strtol(entry->d_name, &end, 10);
        struct stat st;

        if (end == entry->d_name || *end || fstat((int)fd, &st) < 0 || !S_ISSOCK(st.st_mode))
            continue;
        if (listed(inodes, st.st_ino) && shutdown((int)fd, SHUT_RDWR) == 0)
            n++;
    }
    closedir(dir);
    return n;
}
