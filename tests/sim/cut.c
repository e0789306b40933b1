/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/cut.h"

#include <ctype.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process.h"

static bool is_connected(int fd)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;

    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
           (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

static bool cut_one(int process, int number)
{
    int fd = (int)syscall(SYS_pidfd_getfd, process, number, 0);
    const bool done = fd >= 0 && is_connected(fd) && shutdown(fd, SHUT_RDWR) == 0;

    fd_close(&fd);
    return done;
}

static unsigned cut_of(pid_t pid)
{
    char path[64];
    const struct dirent *entry;
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    unsigned n = 0;
    DIR *files;

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    if (process >= 0 && (files = opendir(path))) {
        while ((entry = readdir(files)))
            if (isdigit((unsigned char)entry->d_name[0]))
                n += cut_one(process, atoi(entry->d_name));
        closedir(files);
    }
    fd_close(&process);
    return n;
}

unsigned cut_connections(pid_t pid)
{
    unsigned n = cut_of(pid);
    char path[64];
    long child;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    if (!(f = fopen(path, "r")))
        return n;
    while (fscanf(f, "%ld", &child) == 1)
        n += cut_connections((pid_t)child);
    fclose(f);
    return n;
}
