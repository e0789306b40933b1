/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads Linux's /proc. Other systems don't let us adopt orphans. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

#define TREE_DEPTH 32u /* each level holds a descriptor while it is read */

/* /proc/PID/stat is "pid (name) state ppid …", and the name may hold anything but a NUL. */
static pid_t parse_parent(const char *text)
{
    const char *end = strrchr(text, ')');
    int parent;
    char state;

    if (!end || sscanf(end + 1, " %c %d", &state, &parent) != 2)
        return 0;
    return parent;
}

pid_t orphans_parent(pid_t pid)
{
    char path[64], text[512];
    size_t n;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    if ((n = file_start(path, text, sizeof text - 1).n) == 0)
        return access("/proc/self/stat", R_OK) == 0 ? 0 : -1;
    text[n] = '\0';
    return parse_parent(text);
}

static bool is_spared(const pid_t *spare, size_t n, long pid)
{
    for (size_t k = 0; k < n; k++)
        if (spare[k] == pid)
            return true;
    return false;
}

/* It is stopped first: a parent that runs on would start more. */
static void kill_tree(pid_t pid, unsigned depth)
{
    DIR *dir;
    struct dirent *entry;

    (void)kill(pid, SIGSTOP);
    dir = depth < TREE_DEPTH ? opendir("/proc") : NULL;
    while (dir && (entry = readdir(dir))) {
        const long other = strtol(entry->d_name, NULL, 10);

        if (other > 1 && orphans_parent((pid_t)other) == pid)
            kill_tree((pid_t)other, depth + 1);
    }
    if (dir)
        closedir(dir);
    (void)kill(pid, SIGKILL);
}

void orphans_kill_tree(pid_t pid)
{
    if (pid > 1)
        kill_tree(pid, 0);
}

void orphans_kill(pid_t spare)
{
    orphans_kill_but(&spare, 1);
}

void orphans_kill_but(const pid_t *spare, size_t n)
{
    DIR *dir = opendir("/proc");
    const pid_t self = getpid();
    struct dirent *entry;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        const long pid = strtol(entry->d_name, NULL, 10);

        if (pid <= 1 || is_spared(spare, n, pid) || orphans_parent((pid_t)pid) != self)
            continue;
        if (getpgid((pid_t)pid) == (pid_t)pid)
            (void)process_kill_group((pid_t)pid, SIGKILL);
        (void)kill((pid_t)pid, SIGKILL);
    }
    closedir(dir);
}
