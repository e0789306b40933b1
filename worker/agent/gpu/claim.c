/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "worker/agent/gpu/claim.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "worker/agent/gpu/lease.h"

#define OLD_S 60 /* a file without a lock is removed by its user after so long */

struct timespec claim_clock(void)
{
    struct timespec now = { 0 };

#ifdef CLOCK_BOOTTIME
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
#else
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return now;
}

void claim_name(const char *kind, char out[static CLAIM_NAME])
{
    const struct timespec now = claim_clock();

    snprintf(out, CLAIM_NAME, "%s.%011lld%09ld.%ld", kind, (long long)now.tv_sec, now.tv_nsec,
             (long)getpid());
}

bool claim_is_name(const char *kind, const char *name)
{
    const size_t n = strlen(kind) + 1, all = strlen(name);

    return all < CLAIM_NAME && all > n + 21 && strncmp(name, kind, n - 1) == 0 &&
           name[n - 1] == '.' && strspn(name + n, "0123456789") == 20 && name[n + 20] == '.' &&
           strspn(name + n + 21, "0123456789") == all - n - 21;
}

int claim_make(int folder, const char *name)
{
    const mode_t mask = umask(0);
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    /* others can open it only once it is locked: they could lock it, too */
    int fd = openat(folder, name, flags, 0600);

    (void)umask(mask);
    if (fd >= 0 && (lease_lock(fd, false) != 0 || fchmod(fd, 0644) < 0)) {
        (void)unlinkat(folder, name, 0);
        fd_close(&fd);
    }
    return fd;
}

int claim_open(int folder, const char *name, struct stat *s)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if (fd >= 0 && (fstat(fd, s) < 0 || !S_ISREG(s->st_mode) || s->st_mode & (S_IWGRP | S_IWOTH) ||
                    !lease_is_locked(fd, true)))
        fd_close(&fd);
    return fd;
}

void claim_remove_old(int folder, const char *name)
{
    struct stat s;

    if (fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) == 0 && s.st_uid == geteuid() &&
        S_ISREG(s.st_mode) && time(NULL) - s.st_mtime > OLD_S)
        (void)unlinkat(folder, name, 0);
}

bool claim_is_there(int folder, const char *name, int fd)
{
    struct stat ours, named;

    return fstat(fd, &ours) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}
