/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/agent/processes/env.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void env_release(struct env *e)
{
    for (size_t i = 0; i < e->n; i++)
        free(e->v[i]);
    free(e->v);
    *e = (struct env)ENV_INIT;
}

/* Appends entry and takes it, also on failure. */
static int append(struct env *e, char *entry, struct err *err)
{
    char **v = entry ? realloc(e->v, (e->n + 2) * sizeof *v) : NULL;

    if (!v) {
        free(entry);
        return err_set(err, "out of memory for the environment");
    }
    e->v = v;
    v[e->n++] = entry;
    v[e->n] = NULL;
    return 0;
}

int env_copy(struct env *e, char *const *from, struct err *err)
{
    for (; *from; from++)
        if (append(e, strdup(*from), err) < 0)
            return -1;
    return 0;
}

/* The index of the name; e->n: it is not there. */
static size_t find(const struct env *e, const char *name)
{
    const size_t n = strlen(name);
    size_t i = 0;

    while (i < e->n && (strncmp(e->v[i], name, n) != 0 || e->v[i][n] != '='))
        i++;
    return i;
}

const char *env_get(const struct env *e, const char *name)
{
    const size_t i = find(e, name);

    return i < e->n ? e->v[i] + strlen(name) + 1 : NULL;
}

int env_set(struct env *e, const char *name, const char *value, struct err *err)
{
    const size_t i = find(e, name), size = strlen(name) + (value ? strlen(value) : 0) + 2;
    char *entry;

    if (!value) {
        if (i == e->n)
            return 0;
        free(e->v[i]);
        memmove(&e->v[i], &e->v[i + 1], (e->n - i) * sizeof *e->v);
        e->n--;
        return 0;
    }
    if (!(entry = malloc(size)))
        return err_set(err, "out of memory for the environment");
    snprintf(entry, size, "%s=%s", name, value);
    if (i == e->n)
        return append(e, entry, err);
    free(e->v[i]);
    e->v[i] = entry;
    return 0;
}

int env_set_json(struct env *e, struct slice json, struct err *err)
{
    json_error_t why;
    json_t *object, *value;
    const char *name;
    int rc = 0;

    if (json.n == 0)
        return 0;
    if (!(object = json_loadb(json.p, json.n, 0, &why)))
        return err_set(err, "the environment of START is not JSON: %s", why.text);
    if (!json_is_object(object))
        rc = err_set(err, "the environment of START is not an object");
    json_object_foreach (object, name, value) {
        if (rc < 0)
            break;
        if (!json_is_string(value) || !name[0] || strchr(name, '='))
            rc = err_set(err, "the environment of START: \"%s\" can't be set", name);
        else
            rc = env_set(e, name, json_string_value(value), err);
    }
    json_decref(object);
    return rc;
}

/* Where pip has installed the package, Python must write no bytecode beside it: pip would not
 * remove it. The worker takes the variable back for the user's modules. */
static int keep_unwritten(struct env *e, const char *package, struct err *err)
{
    char path[PATH_MAX];
    const int size = snprintf(path, sizeof path, "%s/../no-bytecode", package);

    if (size >= (int)sizeof path || access(path, F_OK) < 0 || env_get(e, "PYTHONDONTWRITEBYTECODE"))
        return 0;
    return env_set(e, "PYTHONDONTWRITEBYTECODE", "1", err) < 0
               ? -1
               : env_set(e, "CELLSPAN_NO_BYTECODE", "1", err);
}

/* It becomes the last entry of the path, so that the user's own modules are found first. */
static int add_package(struct env *e, const char *package, struct err *err)
{
    const char *old = env_get(e, "PYTHONPATH");
    const size_t size = strlen(package) + (old ? strlen(old) : 0) + 2;
    char *path;
    int rc;

    if (!old || !old[0])
        rc = env_set(e, "PYTHONPATH", package, err);
    else if (!(path = malloc(size)))
        rc = err_set(err, "out of memory for the environment");
    else {
        snprintf(path, size, "%s:%s", old, package);
        rc = env_set(e, "PYTHONPATH", path, err);
        free(path);
    }
    return rc < 0 ? -1 : env_set(e, "CELLSPAN_PYTHONPATH", package, err);
}

int env_for_worker(struct env *e, const char *package, const char *folder, int stack_fd,
                   struct err *err)
{
    char number[16];

    snprintf(number, sizeof number, "%d", stack_fd);
    if (env_set(e, "CELLSPAN_RUNTIME", folder, err) < 0 ||
        env_set(e, "CELLSPAN_STACK_FD", number, err) < 0)
        return -1;
    if (!package || !package[0])
        return 0;
    return add_package(e, package, err) < 0 ? -1 : keep_unwritten(e, package, err);
}
