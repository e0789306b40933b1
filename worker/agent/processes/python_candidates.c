/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/processes/python_candidates.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#ifndef CELLSPAN_PYTHONDIR
#define CELLSPAN_PYTHONDIR ""
#endif

bool python_candidates_version(const char *path, char out[static 32])
{
    static const char name[] = "python3.";
    const char *found = NULL;
    size_t digits = 0;

    for (const char *p = path; (p = strstr(p, name)); p += sizeof name - 1)
        found = p;
    if (!found)
        return false;
    while (isdigit((unsigned char)found[sizeof name - 1 + digits]) && digits < 4)
        digits++;
    if (digits == 0)
        return false;
    snprintf(out, 32, "%.*s", (int)(sizeof name - 1 + digits), found);
    return true;
}

char *python_candidates_copy(struct slice path)
{
    return path.n && memchr(path.p, '\0', path.n) ? NULL : strndup(path.n ? path.p : "", path.n);
}

void python_candidates_release(struct python_candidates *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->program[i]);
    free(p->program);
    free(p->says);
    free(p->python);
    *p = (struct python_candidates)PYTHON_CANDIDATES_INIT;
}

/* Adds a candidate, unless its path is too long. -1: memory is out. */
static int add(struct python_candidates *p, const char *folder, size_t n, const char *name)
{
    char **program, path[PATH_MAX];
    const int size = snprintf(path, sizeof path, "%.*s%s%s", (int)n, folder, n ? "/" : "", name);

    if (size <= 0 || size >= (int)sizeof path)
        return 0;
    if (!(program = realloc(p->program, (p->n + 1) * sizeof *program)))
        return -1;
    p->program = program;
    if (!(program[p->n] = strdup(path)))
        return -1;
    p->n++;
    return 0;
}

/* Adds a path as it is, and a name once for each folder of PATH. */
static int add_each(struct python_candidates *p, const char *name, const char *path)
{
    int rc = 0;

    if (strchr(name, '/'))
        return add(p, "", 0, name);
    for (const char *at = path ? path : ""; rc == 0 && *at;) {
        const size_t n = strcspn(at, ":");

        if (n > 0 && n < PATH_MAX)
            rc = add(p, at, n, name);
        at += n + (at[n] == ':');
    }
    return rc;
}

static int list(struct python_candidates *p, const char *path)
{
    if (!p->says || !p->python)
        return -1;
    if (p->says[0])
        return add_each(p, p->says, path);
    if (add_each(p, p->python, path) < 0)
        return -1;
    p->wanted = p->n;
    if ((python_candidates_version(p->python, p->version) ||
         python_candidates_version(CELLSPAN_PYTHONDIR, p->version)) &&
        add_each(p, p->version, path) < 0)
        return -1;
    return add_each(p, "python3", path) < 0 ? -1 : add_each(p, "python", path);
}

int python_candidates_list(struct python_candidates *p, const char *wanted, const char *set,
                           const char *path, struct err *err)
{
    *p = (struct python_candidates)PYTHON_CANDIDATES_INIT;
    p->says = strdup(set ? set : "");
    p->python = strdup(wanted);
    if (list(p, path) == 0)
        return 0;
    python_candidates_release(p);
    return err_set(err, "out of memory");
}

static const char *none(const struct python_candidates *p, const char *node, struct err *err)
{
    if (p->says[0])
        return err_null(
            err,
            "%s has no %s, which CELLSPAN_REMOTE_PYTHON names: set it, in the notebook's environment, to a "
            "Python that is there, or unset it",
            node, p->says);
    return err_null(
        err,
        "%s has no %s, and no %s%spython3 or python on PATH: install it there, or set CELLSPAN_REMOTE_PYTHON to "
        "where it is there, in the notebook's environment",
        node, p->python, p->version, p->version[0] ? ", " : "");
}

const char *python_candidates_found(const struct python_candidates *p, int found, const char *node,
                                    struct err *err)
{
    if (found < 0 || (size_t)found >= p->n)
        return none(p, node, err);
    if (!p->says[0] && (size_t)found >= p->wanted)
        log_info("agent", "there is no %s here: ranks run %s", p->python, p->program[found]);
    return p->program[found];
}
