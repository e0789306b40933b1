/* SPDX-License-Identifier: BSD-3-Clause */
/* spawn.c - makes workers, with the processes of home and zygotes (declared in private.h). */
#include "worker/agent/private.h"

#include "worker/agent/agent.h"

static struct worker *make(struct agent *a, enum worker_role role, uint32_t id, uint32_t rank,
                           const char *python, struct worker_pipes *ends, struct err *err)
{
    struct worker *w = worker_create(&a->workers, role, id, rank, python, ends, err);

    if (!w || spawn_watch(w, err) == 0)
        return w;
    worker_pipes_close(ends);
    worker_retire(w);
    return NULL;
}

static struct worker *start(struct agent *a, enum worker_role role, uint32_t id, const char *python,
                            const char *cwd, struct slice env, struct err *err)
{
    struct worker_pipes ends;
    struct worker *w = make(a, role, id, 0, python, &ends, err);
    pid_t pid;

    if (!w)
        return NULL;
    pid = spawn_process(w, cwd, &ends, env, err);
    worker_pipes_close(&ends);
    if (pid < 0) {
        worker_retire(w);
        return NULL;
    }
    worker_set_pid(w, pid);
    return w;
}

struct worker *spawn_home(struct agent *a, uint32_t id, const char *python, const char *cwd,
                          struct slice env, struct err *err)
{
    return start(a, WORKER_HOME, id, python, cwd, env, err);
}

struct worker *spawn_zygote(struct agent *a, const char *python, struct err *err)
{
    struct worker *z = zygote_find(&a->workers, python);

    return z ? z : start(a, WORKER_ZYGOTE, 0, python, a->args.cwd, slice_text(""), err);
}

struct worker *rank_worker_make(struct agent *a, uint32_t id, uint32_t rank, const char *python,
                                struct worker_pipes *ends, struct err *err)
{
    return make(a, WORKER_RANK, id, rank, python, ends, err);
}
