/* SPDX-License-Identifier: BSD-3-Clause */
/* proc.c - readers of /proc. On a system without it, each of them fails. */
#include "kernel/jupyter/private.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "base/rows.h"

#define PROCESSES_MAX 100000u

/* Reads the start of the file, NUL-terminated; that is all we need. -1: it can't be read. */
static int file_read(const char *path, char *out, size_t size)
{
    const size_t n = file_start(path, out, size - 1).n;

    out[n] = '\0';
    return n == 0 ? -1 : 0;
}

/* The name, in brackets, may contain brackets: the next fields start after the last bracket. */
static int process_read(long pid, struct proc_process *p)
{
    char path[64], text[1024];
    const char *rest;
    unsigned long long user, system, started;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (file_read(path, text, sizeof text) < 0 || !(rest = strrchr(text, ')')))
        return -1;
    if (sscanf(
            rest + 1,
            " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu",
            &p->parent, &user, &system, &started) != 4)
        return -1;
    p->pid = pid;
    p->ticks = user + system;
    p->started = started;
    return 0;
}

/* The letter of a thread's state, or 'S' if it has ended meanwhile. */
static char thread_state(long pid, const char *thread)
{
    char path[96], text[1024];
    const char *rest;

    snprintf(path, sizeof path, "/proc/%ld/task/%.32s/stat", pid, thread);
    if (file_read(path, text, sizeof text) < 0 || !(rest = strrchr(text, ')')) || !rest[1])
        return 'S';
    return rest[2];
}

int proc_rests(long pid, struct proc_process *p, bool *rests)
{
    char path[64];
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    if (process_read(pid, p) < 0 || !(dir = opendir(path)))
        return -1;
    *rests = true;
    for (const struct dirent *e; *rests && (e = readdir(dir));)
        if (e->d_name[0] != '.') /* a thread that runs, waits for a disk, or is stopped */
            *rests = !strchr("RDTt", thread_state(pid, e->d_name));
    closedir(dir);
    return 0;
}

static int processes(struct proc_process **list, size_t *n)
{
    DIR *dir = opendir("/proc");
    struct proc_process *row;
    size_t room = 0;

    *list = NULL;
    *n = 0;
    if (!dir)
        return -1;
    for (const struct dirent *e; (e = readdir(dir)) && *n < PROCESSES_MAX;) {
        const long pid = strtol(e->d_name, NULL, 10);

        if (pid <= 0)
            continue;
        if (!(row = rows_add(list, n, &room, sizeof *row)))
            break; /* continue with those that we have */
        if (process_read(pid, row) < 0)
            --*n;
    }
    closedir(dir);
    return *n ? 0 : -1;
}

static void swap(struct proc_process *a, struct proc_process *b)
{
    const struct proc_process keep = *a;

    *a = *b;
    *b = keep;
}

/* Moves root and its descendants to the front of the list. Returns how many. */
static size_t tree_first(struct proc_process *list, size_t n, long root)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++)
        if (list[i].pid == root) {
            swap(&list[i], &list[found++]);
            break;
        }
    for (size_t at = 0; at < found; at++)
        for (size_t i = found; i < n; i++)
            if (list[i].parent == list[at].pid)
                swap(&list[i], &list[found++]);
    return found;
}

int proc_tree(long pid, struct proc_process **list, size_t *n)
{
    if (processes(list, n) == 0 && (*n = tree_first(*list, *n, pid)) > 0)
        return 0;
    free(*list);
    *list = NULL;
    return -1;
}

/* The line's number, in KiB, in bytes; 0 if there is no such line. */
static uint64_t line_of(struct slice text, const char *name)
{
    return file_number_of(text, name, 0) * 1024;
}

int proc_memory(struct proc_memory *m)
{
    char bytes[4096];
    const struct slice text = file_start("/proc/meminfo", bytes, sizeof bytes);

    m->total = line_of(text, "MemTotal");
    m->free = line_of(text, "MemFree");
    m->available = line_of(text, "MemAvailable");
    m->buffers = line_of(text, "Buffers");
    m->cached = line_of(text, "Cached") + line_of(text, "SReclaimable");
    m->shared = line_of(text, "Shmem");
    m->active = line_of(text, "Active");
    m->inactive = line_of(text, "Inactive");
    m->slab = line_of(text, "Slab");
    return m->total ? 0 : -1;
}

int proc_cpu(struct proc_cpu *c)
{
    char text[512];
    unsigned long long t[8] = { 0 }; /* user nice system idle iowait irq softirq steal */

    if (file_read("/proc/stat", text, sizeof text) < 0 ||
        sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3],
               &t[4], &t[5], &t[6], &t[7]) < 4)
        return -1;
    c->all = 0;
    for (unsigned i = 0; i < 8; i++)
        c->all += t[i];
    c->busy = c->all - t[3] - t[4];
    return 0;
}
