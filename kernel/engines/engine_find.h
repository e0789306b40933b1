/* engine_find.h - finds an engine: the executable cellspan-launch-NAME, in cellspan's own folder
 * or on PATH. */
#ifndef KERNEL_ENGINES_ENGINE_FIND_H
#define KERNEL_ENGINES_ENGINE_FIND_H

#include "base/err.h"

/* The path of the executable, to be freed by the caller. NULL: *err lists the engines, and names
 * the one that was probably meant. */
char *engine_find(const char *name, struct err *err);

#endif
