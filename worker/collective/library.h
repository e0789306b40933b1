/* library.h - functions of a shared library that may not be there, by one table of names. */
#ifndef WORKER_COLLECTIVE_LIBRARY_H
#define WORKER_COLLECTIVE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A row: the symbol, and where its pointer goes in the struct of functions. */
struct library_row {
    const char *name;
    size_t at;
    bool required; /* else its pointer is NULL where the library lacks it */
};
#define LIBRARY_NEEDS(type, member, symbol)                                                                            \
    {                                                                                                                  \
        symbol, offsetof(type, member), true                                                                           \
    }
#define LIBRARY_LIKES(type, member, symbol)                                                                            \
    {                                                                                                                  \
        symbol, offsetof(type, member), false                                                                          \
    }

/* Opens the first of `names` that can be: sonames as the system finds them, or paths; NULL and empty ones are passed
 * over. Prefers one that this process has loaded already over another version of it. *used: which. NULL: *err has every
 * reason. */
void *library_open(const char *const *names, size_t n, const char **used, struct err *err);
MUST_USE int library_fill(void *library, const char *used, const struct library_row *row, size_t n, void *functions,
                          struct err *err);
void library_close(void *library); /* NULL is fine */

#endif
