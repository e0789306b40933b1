/* SPDX-License-Identifier: BSD-3-Clause */
/* stage.h - helpers for tests of GPUs: the doubles, what they present, and a folder for leases. */
#ifndef TESTS_UNIT_GPU_STAGE_H
#define TESTS_UNIT_GPU_STAGE_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"

extern char **environ;

struct stage {
    char dir[64];
    char control[96];
    char leases[96];
};

/* "TOP/tests/doubles/NAME" into the environment. */
static inline void stage_library(const char *env, const char *name)
{
    const char *top = getenv("top_builddir");
    char path[1024], cwd[512];

    snprintf(path, sizeof path, "%s/%s/tests/doubles/%s",
             top && top[0] == '/' ? "" : getcwd(cwd, sizeof cwd), top ? top : ".", name);
    setenv(env, path, 1);
}

/* The doubles present what `facts` say from now on; see tests/doubles/README.md. */
static inline void stage_set(const struct stage *s, const char *facts)
{
    FILE *f = fopen(s->control, "we");

    if (!f || fputs(facts, f) < 0 || fclose(f) != 0) {
        perror(s->control);
        exit(99);
    }
}

static inline void stage_open(struct stage *s)
{
    char libexec[4096]; /* PATH_MAX */
    const char *top = getenv("top_builddir");

    snprintf(s->dir, sizeof s->dir, "/tmp/cellspan-gpu-test-XXXXXX");
    if (!mkdtemp(s->dir)) {
        perror(s->dir);
        exit(99);
    }
    snprintf(s->control, sizeof s->control, "%s/control", s->dir);
    snprintf(s->leases, sizeof s->leases, "%s/leases", s->dir);
    setenv("CELLSPAN_DOUBLE_GPUS", s->control, 1);
    setenv("CELLSPAN_GPU_LEASES", s->leases, 1);
    setenv("CELLSPAN_LIBEXECDIR", realpath(top ? top : ".", libexec) ? libexec : ".", 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    stage_library("CELLSPAN_NVML_LIBRARY", "libnvidia-ml.so");
    stage_library("CELLSPAN_CUDA_LIBRARY", "libcuda.so");
    stage_set(s, "");
}

/* Starts this test's program again as another notebook's agent: with these two arguments, as this
 * user (0: ours). It says by a byte that it is up: 'y' if all went well. */
static inline pid_t stage_start(const char *notebook, uid_t uid, const char *first,
                                const char *second)
{
    int fd[2], program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char *argv[] = { (char *)(uintptr_t)"again", (char *)(uintptr_t)first,
                     (char *)(uintptr_t)second, NULL };
    char byte = 0;
    pid_t pid;

    if (pipe(fd) < 0)
        return -1;
    if ((pid = fork()) == 0) {
        setenv("JPY_SESSION_NAME", notebook, 1);
        close(fd[0]);
        if (dup2(fd[1], STDOUT_FILENO) < 0 || (uid && setuid(uid) < 0))
            _exit(98);
        fexecve(program, argv, environ);
        _exit(99);
    }
    close(program);
    close(fd[1]);
    (void)!read(fd[0], &byte, 1);
    close(fd[0]);
    ok(byte == 'y', "%s takes the GPU", notebook[0] ? notebook : "another process");
    return pid;
}

/* The other side. */
static inline _Noreturn void stage_is_up(bool well)
{
    (void)!write(STDOUT_FILENO, well ? "y" : "n", 1);
    for (;;)
        pause();
}

static inline void stage_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static inline void stage_close(const struct stage *s)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", s->dir);
    if (system(command) != 0)
        diag("%s stays", s->dir);
}

#endif
