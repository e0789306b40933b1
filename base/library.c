/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef RTLD_NOLOAD
#define RTLD_NOLOAD 0
#endif

size_t library_of_driver(const char *set, const char *soname, const char *root,
                         const char *names[static LIBRARY_PLACES])
{
    static const char *const folders[] = { "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib",
                                           "/run/opengl-driver/lib" };
    static _Thread_local char paths[LIBRARY_PLACES - 1][512];
    size_t n = 0;

    names[n++] = set ? set : soname;
    if (names[0] != soname)
        return n;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(paths[i], sizeof paths[i], "%s%s/%s", root, folders[i], soname);
        if (access(paths[i], R_OK) == 0)
            names[n++] = paths[i];
    }
    return n;
}

/* One name, loaded already or not. */
static void *open_one(const char *name, bool loaded)
{
    if (!name || !name[0] || (loaded && !RTLD_NOLOAD))
        return NULL;
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | (loaded ? RTLD_NOLOAD : 0));
}

static void add_reason(char *reasons, size_t size)
{
    const char *why = dlerror();
    const size_t n = strlen(reasons);

    if (why && n + 3 < size)
        snprintf(reasons + n, size - n, "%s%s", n ? "; " : "", why);
}

void *library_open(const char *const *names, size_t n, const char **used, struct err *err)
{
    char reasons[768] = "";

    for (int loaded = 1; loaded >= 0; loaded--) {
        for (size_t i = 0; i < n; i++) {
            void *library = open_one(names[i], loaded == 1);

            if (library) {
                *used = names[i];
                return library;
            }
            if (!loaded && names[i] && names[i][0])
                add_reason(reasons, sizeof reasons);
        }
    }
    return err_null(err, "%s", reasons[0] ? reasons : "no library is named");
}

static void *look_up(void *library, const struct library_row *row)
{
    void *found = NULL;

    for (unsigned i = 0; !found && i < LIBRARY_NAMES && row->name[i]; i++)
        found = dlsym(library, row->name[i]);
    return found;
}

int library_fill(void *library, const char *used, const struct library_row *row, size_t n,
                 void *functions, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        void *const found = look_up(library, &row[i]);

        if (!found && row[i].required)
            return err_set(err, "%s has no %s: it is too old or broken, another version is needed",
                           used, row[i].name[0]);
        /* ISO C has no cast from object to function pointers */
        memcpy((char *)functions + row[i].at, &found, sizeof found);
    }
    return 0;
}

void library_close(void *library)
{
    if (library)
        dlclose(library);
}
