/* SPDX-License-Identifier: BSD-3-Clause */
/* spawn_process.c - starts the processes of home and zygotes, and has the loop watch workers
 * (declared in private.h). */
#include "worker/agent/private.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "base/runtime.h"
#include "base/settings.h"
#include "worker/agent/agent.h"
#include "worker/agent/processes/env.h"

extern char **environ;

/* As `python -m`, but neither a user's cellspan.py in the current folder nor another version on
 * PYTHONPATH or in this Python is taken for the package. (The option -P is new in Python 3.11.) */
#define AS_MODULE                                                                                  \
    "import os, sys; sys.path[:1] == [''] and sys.path.pop(0); "                                   \
    "sys.path.insert(0, os.environ['CELLSPAN_PYTHONPATH']); import cellspan; sys.path.pop(0); "    \
    "import runpy; runpy._run_module_as_main(sys.argv.pop(1))"

static pid_t execute(const struct worker *w, const char *cwd, const struct worker_pipes *ends,
                     const struct env *env, struct err *err)
{
    char link[16];
    const char *const argv[] = {
        w->python, "-c", AS_MODULE, "cellspan._worker", w->role == WORKER_HOME ? "home" : "zygote",
        link,      NULL
    };
    const int keep[] = { ends->link, ends->stack };
    struct process_spec spec = PROCESS_SPEC_INIT;

    snprintf(link, sizeof link, "%d", ends->link);
    spec.argv = argv;
    spec.env = (const char *const *)env->v;
    spec.cwd = cwd && cwd[0] ? cwd : NULL;
    spec.out = ends->out;
    spec.errs = ends->errs;
    spec.keep = keep;
    spec.n_keep = 2;
    spec.session = true;
    spec.die_with_parent = true;
    spec.holds_notices = w->role == WORKER_ZYGOTE; /* until outlive() */
    return process_start(&spec, err);
}

pid_t spawn_process(const struct worker *w, const char *cwd, const struct worker_pipes *ends,
                    struct slice json, struct err *err)
{
    const struct agent *a = w->all->agent;
    struct env env = ENV_INIT;
    pid_t pid = -1;

    if (env_copy(&env, environ, err) == 0 && env_set_json(&env, json, err) == 0 &&
        env_for_worker(&env, a->package, a->args.folder, ends->stack, err) == 0)
        pid = execute(w, cwd, ends, &env, err);
    env_release(&env);
    return pid;
}

/* A zygote's socket has its own protocol. */
int spawn_watch(struct worker *w, struct err *err)
{
    static const loop_fd_f link[] = { relay_event, relay_event, zygote_event };
    struct loop *loop = w->all->io.loop;
    struct stream *s = w->pipes.stream;

    return (w->link = loop_fd(loop, w->link_fd, LOOP_READ, link[w->role], w, err)) &&
                   (s[0].watch = loop_fd(loop, s[0].fd, LOOP_READ, relay_pipe, w, err)) &&
                   (s[1].watch = loop_fd(loop, s[1].fd, LOOP_READ, relay_pipe, w, err)) &&
                   (w->stacks.watch = loop_fd(loop, w->stacks.fd, LOOP_READ, stacks_event, w, err))
               ? 0
               : -1;
}
