/* symbols.c - see symbols.h. */
#include "worker/agent/gpu/symbols.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void *symbols_open(const char *env, const char *standard, struct err *err)
{
    const char *told = getenv(env), *name = told && told[0] ? told : standard, *why;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (library)
        return library;
    why = dlerror();
    return err_null(err, "%s can't be loaded: %s", name, why ? why : "no reason given");
}

static void *look_up(void *library, const struct symbol *s)
{
    void *found = NULL;

    for (unsigned i = 0; !found && i < SYMBOL_NAMES && s->name[i]; i++)
        found = dlsym(library, s->name[i]);
    return found;
}

int symbols_fill(void *library, const struct symbol *symbol, size_t n, void *table, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        void *const found = look_up(library, &symbol[i]);

        if (!found && symbol[i].required)
            return err_set(err, "%s is missing in the driver's library: it is too old or broken", symbol[i].name[0]);
        memcpy((char *)table + symbol[i].at, &found,
               sizeof found); /* ISO C has no cast from object to function pointers */
    }
    return 0;
}
