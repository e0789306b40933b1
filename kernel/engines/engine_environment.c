/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_environment.c - the environment of an engine (declared in private.h). */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "kernel/engines/private.h"

#define PREFIX   "CELLSPAN_"
#define VARIABLE PREFIX "SECRET="
#define PYTHON   PREFIX "HOME_PYTHON="
#define OWN      PREFIX "KERNEL_ENDPOINT="

extern char **environ;

static bool begins(const char *entry, const char *start)
{
    return strncmp(entry, start, strlen(start)) == 0;
}

/* Home can't change variables of cellspan: the engine gets the kernel's. Only one is added by home.
 */
static bool may_change(const char *name)
{
    return *name && !strchr(name, '=') &&
           (!begins(name, PREFIX) || strcmp(name, PREFIX "SPARK_SESSION") == 0);
}

static bool is_replaced(const char *entry, const json_t *changes)
{
    const char *name;
    json_t *value;

    if (begins(entry, VARIABLE) || begins(entry, PYTHON) || begins(entry, OWN))
        return true;
    json_object_foreach ((json_t *)changes, name, value)
        if (may_change(name) && begins(entry, name) && entry[strlen(name)] == '=')
            return true;
    return false;
}

/* "NAME=value" becomes the next of the owned strings. */
static int add(struct engine_environment *e, const char *name, const char *value)
{
    struct buf entry = BUF_INIT;

    if (buf_addf(&entry, "%s%s", name, value) < 0) {
        buf_release(&entry);
        return -1;
    }
    e->v[e->n++] = entry.p;
    return 0;
}

static int add_change(struct engine_environment *e, const char *name, const json_t *value)
{
    struct buf start = BUF_INIT;
    int rc = 0;

    if (json_is_string(value) && may_change(name))
        rc = buf_addf(&start, "%s=", name) < 0 ? -1 : add(e, start.p, json_string_value(value));
    buf_release(&start);
    return rc;
}

int engine_environment_make(struct engine_environment *e, const char *python, const char *own,
                            const struct secret *secret, const json_t *changes, struct err *err)
{
    char text[SECRET_TEXT_SIZE];
    const char *name;
    json_t *value;
    size_t n = 0;
    int rc;

    *e = (struct engine_environment)ENGINE_ENVIRONMENT_INIT;
    while (environ[n])
        n++;
    if (!(e->v = calloc(n + json_object_size(changes) + 4, sizeof *e->v)))
        return err_set(err, "out of memory");
    for (size_t i = 0; i < n; i++)
        if (!is_replaced(environ[i], changes))
            e->v[e->n++] = environ[i];
    e->borrowed = e->n;
    rc = add(e, PYTHON, python ? python : "");
    if (rc == 0)
        rc = add(e, OWN, own);
    if (rc == 0 && secret) {
        secret_format(secret, text);
        rc = add(e, VARIABLE, text);
        sodium_memzero(text, sizeof text);
    }
    json_object_foreach ((json_t *)changes, name, value)
        if (rc == 0)
            rc = add_change(e, name, value);
    if (rc == 0)
        return 0;
    engine_environment_release(e);
    return err_set(err, "out of memory");
}

void engine_environment_release(struct engine_environment *e)
{
    for (size_t i = e->borrowed; i < e->n; i++) {
        sodium_memzero(e->v[i], strlen(e->v[i])); /* one of them is the secret */
        free(e->v[i]);
    }
    free(e->v);
    *e = (struct engine_environment)ENGINE_ENVIRONMENT_INIT;
}
