/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_find.c - finds the program or module of an engine, and lists the engines (declared in
 * engines.h). */
#include "kernel/engines/engines.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/runtime.h"
#include "base/suggest.h"

#define PREFIX    "cellspan-launch-"
#define MODULES   "/cellspan/_launch"
#define SUFFIX    ".py"
#define NAMES_MAX 64u

/* Sorted. The strings are owned. */
struct names {
    char *name[NAMES_MAX];
    unsigned n;
};

static bool is_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_' && *c != '.')
            return false;
    return *name && *name != '.' && strlen(name) < 64;
}

/* Only for a hint: names are left out if memory is out. */
static void names_add(struct names *s, const char *name)
{
    char *copy;
    unsigned at = 0;

    while (at < s->n && strcmp(s->name[at], name) < 0)
        at++;
    if (s->n == NAMES_MAX || (at < s->n && strcmp(s->name[at], name) == 0) ||
        !(copy = strdup(name)))
        return;
    memmove(&s->name[at + 1], &s->name[at], (s->n - at) * sizeof s->name[0]);
    s->name[at] = copy;
    s->n++;
}

static void names_of_folder(struct names *s, const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *entry;

    while (d && (entry = readdir(d)))
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
            is_name(entry->d_name + sizeof PREFIX - 1) &&
            faccessat(dirfd(d), entry->d_name, X_OK, 0) == 0)
            names_add(s, entry->d_name + sizeof PREFIX - 1);
    if (d)
        closedir(d);
}

/* cellspan-launch-local is in cellspan's own folder. */
static void names_of_ours(struct names *s)
{
    struct err err = { "" };
    char *local = runtime_find(PREFIX "local", &err), *slash = local ? strrchr(local, '/') : NULL;

    if (slash) {
        *slash = '\0';
        names_of_folder(s, local);
    }
    free(local);
}

static void names_of_path(struct names *s)
{
    for (struct slice path = slice_text(getenv("PATH")); path.n;) {
        char *folder = slice_copy(slice_cut(&path, ':'));

        if (folder && *folder)
            names_of_folder(s, folder);
        free(folder);
    }
}

/* The modules of the package, without the program that runs them, what they share, and those with a
 * '_' in their names, which belong to another module. */
static bool is_module(const char *name)
{
    return is_name(name) && !strchr(name, '_') && strcmp(name, "launcher") != 0;
}

static void names_of_modules(struct names *s)
{
    struct buf path = BUF_INIT;
    char *package = runtime_package();
    DIR *d = package && buf_addf(&path, "%s" MODULES, package) == 0 ? opendir(path.p) : NULL;
    struct dirent *entry;

    while (d && (entry = readdir(d))) {
        const size_t n = strlen(entry->d_name);
        char name[64] = "";

        if (n > strlen(SUFFIX) && n - strlen(SUFFIX) < sizeof name &&
            strcmp(entry->d_name + n - strlen(SUFFIX), SUFFIX) == 0)
            memcpy(name, entry->d_name, n - strlen(SUFFIX));
        if (is_module(name))
            names_add(s, name);
    }
    if (d)
        closedir(d);
    free(package);
    buf_release(&path);
}

static void not_found(const char *name, struct err *err)
{
    struct names s = { .n = 0 };
    struct buf list = BUF_INIT;
    const char *meant;

    names_of_ours(&s);
    names_of_path(&s);
    names_of_modules(&s);
    for (unsigned i = 0; i < s.n; i++)
        if (buf_addf(&list, "%s%s", i ? ", " : "", s.name[i]) < 0)
            break;
    meant = suggest_nearest(name, (const char *const *)s.name, s.n);
    if (meant)
        err_set(err, "--on %.64s: there is no such engine; did you mean %s? There are: %s", name,
                meant, list.p);
    else if (!is_name(name))
        err_set(err, "--on %.64s: that is no engine's name. There are: %s", name,
                list.n ? list.p : "none");
    else
        err_set(
            err,
            "--on %.64s: there is no such engine. There are: %s. An executable %s%.64s on PATH would be one",
            name, list.n ? list.p : "none", PREFIX, name);
    buf_release(&list);
    while (s.n > 0)
        free(s.name[--s.n]);
}

/* The folder of the package, if the engine is a module of it; the caller frees it. */
static char *package_with(const char *name)
{
    struct buf path = BUF_INIT;
    char *package = is_module(name) ? runtime_package() : NULL;

    if (package && (buf_addf(&path, "%s" MODULES "/%s" SUFFIX, package, name) < 0 ||
                    access(path.p, R_OK) < 0)) {
        free(package);
        package = NULL;
    }
    buf_release(&path);
    return package;
}

int engine_find(const char *name, struct engine_program *program, struct err *err)
{
    char file[sizeof PREFIX + 64];
    struct err unused = { "" };

    *program = (struct engine_program)ENGINE_PROGRAM_INIT;
    if (is_name(name)) {
        snprintf(file, sizeof file, PREFIX "%s", name);
        program->path = runtime_find(file, &unused);
    }
    if (!program->path)
        program->package = package_with(name);
    if (program->path || program->package)
        return 0;
    not_found(name, err);
    return -1;
}

void engine_program_release(struct engine_program *program)
{
    free(program->path);
    free(program->package);
    *program = (struct engine_program)ENGINE_PROGRAM_INIT;
}
