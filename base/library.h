/* SPDX-License-Identifier: BSD-3-Clause */
/* library.h - loads functions of an optional shared library, by a table of their names. */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define LIBRARY_NAMES 3

/* A row: the symbol's names, and where its pointer goes in the struct of functions. */
struct library_row {
    const char *name[LIBRARY_NAMES]; /* the newest first; the first that the library has is taken */
    size_t at;
    bool required; /* false: its pointer is NULL if the library lacks it */
};
/* type: the struct's type. After the member follow one to LIBRARY_NAMES names. */
#define LIBRARY_NEEDS(type, member, ...) { { __VA_ARGS__ }, offsetof(type, member), true }
#define LIBRARY_LIKES(type, member, ...) { { __VA_ARGS__ }, offsetof(type, member), false }

/* Where to look for a library that comes with a driver. Fills `names` with `set`, the
 * user's setting; if that is NULL, with the soname and those paths that exist in
 * folders where container hosts, WSL and NixOS put drivers' libraries without telling the loader.
 * Returns how many. `root` goes before these folders ("" except in tests). The paths are valid
 * until this thread's next call. */
#define LIBRARY_PLACES 4u
size_t library_of_driver(const char *set, const char *soname, const char *root,
                         const char *names[static LIBRARY_PLACES]);
/* Opens the first of `names` (sonames or paths) that can be opened, and sets *used to it. Skips
 * NULL and empty names. Prefers one that this process has already loaded, so that it does not load
 * a second version. NULL: *err has the reason for each name. */
void *library_open(const char *const *names, size_t n, const char **used, struct err *err);
/* Fills n pointers of *functions. -1: a required one is missing; *err names it. */
MUST_USE int library_fill(void *library, const char *used, const struct library_row *row, size_t n,
                          void *functions, struct err *err);
void library_close(void *library); /* NULL is fine */

#endif
