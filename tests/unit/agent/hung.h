/* SPDX-License-Identifier: BSD-3-Clause */
/* hung.h - a folder whose file system never answers, like that of a file server that is down: FUSE,
 * without anybody who reads its requests. Only on Linux and as root; the mount is in a namespace of
 * this process and its children. */
#ifndef TESTS_UNIT_AGENT_HUNG_H
#define TESTS_UNIT_AGENT_HUNG_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#include <sys/mount.h>
#endif

#define HUNG_SIZE 64u

/* A descriptor that keeps it; -1: it can't be had. */
static inline int hung_open(char path[static HUNG_SIZE])
{
#ifdef __linux__
    char options[96];
    int fd;

    snprintf(path, HUNG_SIZE, "/tmp/cellspan-hung-XXXXXX");
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        !mkdtemp(path))
        return -1;
    if ((fd = open("/dev/fuse", O_RDWR | O_CLOEXEC)) < 0) {
        rmdir(path);
        return -1;
    }
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    if (mount("cellspan-hung", path, "fuse", 0, options) == 0)
        return fd;
    close(fd);
    rmdir(path);
#else
    path[0] = '\0';
#endif
    return -1;
}

/* Whoever waits is told that it is gone. */
static inline void hung_close(const char *path, int fd)
{
#ifdef __linux__
    close(fd);
    (void)umount2(path, MNT_DETACH);
#endif
    rmdir(path);
}

#endif
