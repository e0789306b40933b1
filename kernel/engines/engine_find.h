/* engine_find.h - the engines that are installed: executables cellspan-launch-NAME, in cellspan's
 * own folders or on PATH. */
#ifndef KERNEL_ENGINES_ENGINE_FIND_H
#define KERNEL_ENGINES_ENGINE_FIND_H

#include "base/err.h"

/* The path of the engine's executable, the caller's (free()). NULL: the err says which there are,
 * and which was probably meant. */
char *engine_find(const char *name, struct err *err);

#endif
