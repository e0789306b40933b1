/* symbols.h - a library that may not be there: dlopen, and a struct of function pointers filled from one table of
 * names. */
#ifndef WORKER_AGENT_GPU_SYMBOLS_H
#define WORKER_AGENT_GPU_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define SYMBOL_NAMES 3

struct symbol {
    const char *name[SYMBOL_NAMES]; /* the newest first; the first that the library has is taken */
    size_t at;                      /* where in the struct the pointer stands */
    bool required;                  /* false: stays NULL where an older driver lacks it */
};

/* Opens the library that the environment variable `env` names, else `standard`. NULL: *err names what was looked for.
 */
void *symbols_open(const char *env, const char *standard, struct err *err);
/* Fills n pointers of *table. -1: one that is required is not there; *err names it. */
MUST_USE int symbols_fill(void *library, const struct symbol *symbol, size_t n, void *table, struct err *err);

#endif
