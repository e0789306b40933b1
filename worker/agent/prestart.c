/* SPDX-License-Identifier: BSD-3-Clause */
/* prestart.c - starts the zygote before ranks are wanted; finds Python (declared in private.h). */
#include "worker/agent/private.h"

#include <stdlib.h>

#include "base/log.h"
#include "protocol/span_fields.h"
#include "worker/agent/agent.h"
#include "worker/agent/net/join.h"

/* limit for a file system to answer: half of the time that the kernel gives ranks to start */
#define FIND_NS (60 * NS_PER_S)

int prestart_find(struct agent *a, const char *python, const char *cwd,
                  struct python_candidates *paths, path_probe_f f, void *arg, struct err *err)
{
    struct path_probe_for what = { .folder = cwd, .limit_ns = FIND_NS };

    if (python_candidates_list(paths, python, a->remote_python, a->path, err) < 0)
        return -1;
    what.program = paths->program;
    what.n = paths->n;
    return path_probe_start(&a->probes, &what, f, arg, err);
}

struct warming {
    struct agent *agent;
    struct python_candidates paths;
};

static void warming_destroy(struct warming *w)
{
    python_candidates_release(&w->paths);
    free(w);
}

static void warm(struct agent *a, const char *python)
{
    struct err err = { "" };

    if (!spawn_zygote(a, python, &err))
        log_warn("agent", "WARM: %s", err.text);
}

static void found_python(void *arg, int found, bool folder, const char *why)
{
    struct warming *w = arg;
    struct err err = { "" };
    const char *python = why ? NULL
                             : python_candidates_found(&w->paths, found, w->agent->args.node, &err);

    (void)folder;
    if (!python)
        log_warn("agent", "WARM: %s", why ? why : err.text);
    else if (!w->agent->kernel.quitting)
        warm(w->agent, python);
    warming_destroy(w);
}

static int warm_there(struct agent *a, const char *python, struct err *err)
{
    struct warming *w = calloc(1, sizeof *w);

    if (!w)
        return err_set(err, "out of memory");
    w->agent = a;
    w->paths = (struct python_candidates)PYTHON_CANDIDATES_INIT;
    if (prestart_find(a, python, "", &w->paths, found_python, w, err) == 0)
        return 0;
    warming_destroy(w);
    return -1;
}

void prestart_zygote(struct agent *a, const struct span *m)
{
    char *python = python_candidates_copy(m->v[F_WARM_PYTHON].s);
    struct err err = { "" };

    if (python && !join_is_remote(a->args.connect))
        warm(a, python);
    else if (python && warm_there(a, python, &err) < 0)
        log_warn("agent", "WARM: %s", err.text);
    free(python);
}
