/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_processes.c - finds all processes of the workers, also those that ranks have started
 * (declared in driver.h). */
#include "worker/agent/gpu/driver.h"

#include <ctype.h>
#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/process.h"

void gpu_processes_release(struct gpu_processes *c)
{
    free(c->v);
    *c = (struct gpu_processes)GPU_PROCESSES_INIT;
}

const struct gpu_process *gpu_processes_find(const struct gpu_processes *c, long pid)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].pid == pid)
            return &c->v[i];
    return NULL;
}

static int add(struct gpu_processes *c, long pid, size_t worker, struct err *err)
{
    struct gpu_process *v;

    if (pid <= 0 || c->n >= GPU_PROCESSES_MAX || gpu_processes_find(c, pid))
        return 0;
    if (!(v = realloc(c->v, (c->n + 1) * sizeof *v)))
        return err_set(err, "out of memory");
    c->v = v;
    v[c->n++] = (struct gpu_process){ pid, worker };
    return 0;
}

/* Adds the children of one thread. */
static int add_children(struct gpu_processes *c, const char *path, size_t worker, struct err *err)
{
    FILE *f = fopen(path, "re");
    long pid;
    int rc = 0;

    while (f && rc == 0 && fscanf(f, "%ld", &pid) == 1)
        rc = add(c, pid, worker, err);
    if (f)
        fclose(f);
    return rc;
}

/* Adds the children of all threads of a process. */
static int add_threads(struct gpu_processes *c, struct gpu_process m, struct err *err)
{
    char path[128];
    const struct dirent *e;
    DIR *dir;
    int rc = 0;

    snprintf(path, sizeof path, "/proc/%ld/task", m.pid);
    if (!(dir = opendir(path)))
        return 0;
    while (rc == 0 && (e = readdir(dir)))
        if (isdigit((unsigned char)e->d_name[0])) {
            snprintf(path, sizeof path, "/proc/%ld/task/%.20s/children", m.pid, e->d_name);
            rc = add_children(c, path, m.worker, err);
        }
    closedir(dir);
    return rc;
}

int gpu_processes_fill(struct gpu_processes *c, const json_t *workers, struct err *err)
{
    for (size_t i = 0; i < json_array_size(workers); i++)
        if (add(c, (long)json_integer_value(json_object_get(json_array_get(workers, i), "pid")), i,
                err) < 0)
            return -1;
    for (size_t i = 0; i < c->n; i++) /* grows meanwhile */
        if (add_threads(c, c->v[i], err) < 0)
            return -1;
    return 0;
}

uint64_t gpu_processes_memory(const struct gpu_processes *c, size_t worker)
{
    uint64_t bytes, sum = 0;

    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].worker == worker && process_memory(c->v[i].pid, &bytes))
            sum += bytes;
    return sum;
}

uint64_t gpu_processes_cpu(const struct gpu_processes *c, size_t worker)
{
    uint64_t ns, sum = 0;

    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].worker == worker && process_cpu(c->v[i].pid, &ns))
            sum += ns;
    return sum;
}

const char *gpu_processes_who(long pid, char out[static GPU_PROCESSES_WHO])
{
    const struct passwd *p;
    char path[64], name[32];
    struct slice text, first;
    struct stat s;

    out[0] = '\0';
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    text = file_start(path, name, sizeof name);
    if (!text.n || stat(path, &s) < 0)
        return out;
    first = slice_line(&text);
    if (!first.n)
        first = slice_text("process");
    p = getpwuid(s.st_uid);
    snprintf(out, GPU_PROCESSES_WHO, "%.48s's %.*s", p ? p->pw_name : "somebody", SLICE_ARG(first));
    for (char *at = out; *at; at++)
        if (!isprint((unsigned char)*at))
            *at = '?';
    return out;
}
