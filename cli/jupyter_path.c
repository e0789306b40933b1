/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/jupyter_path.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/process.h"
#include "base/runtime.h"
#include "cli/kernelspec.h"

#define SAID_MAX 65536u /* bytes of `jupyter --paths --json` that are read */

void jupyter_path_release(struct jupyter_path *p)
{
    while (p->n)
        free(p->dir[--p->n]);
    free(p->program);
    p->program = NULL;
}

bool jupyter_path_has(const struct jupyter_path *p, const char *dir)
{
    for (unsigned i = 0; i < p->n; i++)
        if (strcmp(p->dir[i], dir) == 0)
            return true;
    return false;
}

/* Takes dir, which may be NULL when memory is out. A folder that is there already stays once. */
static int take(struct jupyter_path *p, char *dir)
{
    if (!dir)
        return -1;
    if (jupyter_path_has(p, dir) || p->n == JUPYTER_DIRS_MAX)
        free(dir);
    else
        p->dir[p->n++] = dir;
    return 0;
}

/* 1: it has answered; 0: it has not; -1: memory is out. */
static int ask(struct jupyter_path *p)
{
    const char *argv[] = { p->program, "--paths", "--json", NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct buf said = BUF_INIT;
    struct err unused = { "" };
    json_t *answer = NULL, *dir;
    int rc = 0;
    size_t i;

    spec.argv = argv;
    if ((spec.errs = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0)
        return 0;
    if (process_output(&spec, SAID_MAX, PROCESS_ANSWER_NS, &said, &unused) == 0 && said.n)
        answer = json_loadb(said.p, said.n, 0, NULL);
    fd_close(&spec.errs);
    json_array_foreach (json_object_get(answer, "data"), i, dir)
        if (rc == 0 && json_is_string(dir))
            rc = take(p, strdup(json_string_value(dir)));
    json_decref(answer);
    buf_release(&said);
    return rc < 0 ? -1 : p->n > 0;
}

static int take_below(struct jupyter_path *p, const char *prefix)
{
    struct buf dir = BUF_INIT;

    if (buf_addf(&dir, "%s/share/jupyter", prefix) < 0) {
        buf_release(&dir);
        return -1;
    }
    return take(p, buf_take(&dir));
}

static int take_documented(struct jupyter_path *p, const char *prefix)
{
    struct err unused = { "" };
    char *user = kernelspec_data_dir(NULL, &unused);
    int rc = 0;

    for (struct slice all = slice_text(getenv("JUPYTER_PATH")); all.n && rc == 0;) {
        const struct slice one = slice_cut(&all, ':');

        rc = one.n ? take(p, slice_copy(one)) : 0;
    }
    if (rc == 0 && user)
        rc = take(p, user);
    else
        free(user);
    if (rc == 0 && prefix)
        rc = take_below(p, prefix);
    return rc || take_below(p, "/usr/local") || take_below(p, "/usr") ? -1 : 0;
}

int jupyter_path_find(struct jupyter_path *p, const char *prefix, struct err *err)
{
    int rc = 0;

    *p = (struct jupyter_path){ .program = runtime_on_path("jupyter") };
    if (!p->program)
        p->program = runtime_near("jupyter");
    if (p->program && (rc = ask(p)) == 0) {
        free(p->program);
        p->program = NULL;
    }
    if (rc == 0)
        rc = take_documented(p, prefix);
    if (rc >= 0)
        return 0;
    jupyter_path_release(p);
    return err_set(err, "out of memory");
}

char *jupyter_path_spec(const struct jupyter_path *p, const char *name)
{
    for (unsigned i = 0; i < p->n; i++) {
        struct buf path = BUF_INIT;

        if (buf_addf(&path, "%s/kernels/%s/kernel.json", p->dir[i], name) == 0 &&
            access(path.p, F_OK) == 0)
            return buf_take(&path);
        buf_release(&path);
    }
    return NULL;
}
