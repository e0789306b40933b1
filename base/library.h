/* library.h - functions of a shared library that may not be there, by one table of names. */
#ifndef BASE_LIBRARY_H
#define BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define LIBRARY_NAMES 3

/* A row: the symbol, and where its pointer goes in the struct of functions. */
struct library_row {
    const char *name[LIBRARY_NAMES]; /* the newest first; the first that the library has is taken */
    size_t at;
    bool required; /* else its pointer is NULL where the library lacks it */
};
/* type: of the struct. Behind the member one to LIBRARY_NAMES names. */
#define LIBRARY_NEEDS(type, member, ...) { { __VA_ARGS__ }, offsetof(type, member), true }
#define LIBRARY_LIKES(type, member, ...) { { __VA_ARGS__ }, offsetof(type, member), false }

/* For a library that comes with a driver: fills `names` with what the environment variable `env`
 * names, or else with the soname and, where there is such a file below `root` ("" but for tests),
 * its paths in the folders to which container hosts, WSL and NixOS put a driver's libraries without
 * telling the loader. How many there are. The paths are good until this thread's next call. */
#define LIBRARY_PLACES 4u
size_t library_of_driver(const char *env, const char *soname, const char *root,
                         const char *names[static LIBRARY_PLACES]);
/* Opens the first of `names` that can be: sonames as the system finds them, or paths; NULL and
 * empty ones are passed over. Prefers one that this process has loaded already over another version
 * of it. *used: which. NULL: *err has every reason. */
void *library_open(const char *const *names, size_t n, const char **used, struct err *err);
/* Fills n pointers of *functions. -1: one that is required is not there; *err names it. */
MUST_USE int library_fill(void *library, const char *used, const struct library_row *row, size_t n,
                          void *functions, struct err *err);
void library_close(void *library); /* NULL is fine */

#endif
