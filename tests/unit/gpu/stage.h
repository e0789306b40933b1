/* SPDX-License-Identifier: BSD-3-Clause */
/* stage.h - helpers for tests of GPUs: the doubles, what they present, and a folder for leases. */
#ifndef TESTS_UNIT_GPU_STAGE_H
#define TESTS_UNIT_GPU_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/tap.h"

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

static inline void stage_close(const struct stage *s)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", s->dir);
    if (system(command) != 0)
        diag("%s stays", s->dir);
}

#endif
