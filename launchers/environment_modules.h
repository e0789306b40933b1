/* SPDX-License-Identifier: BSD-3-Clause */
/* environment_modules.h - the shell code that loads environment modules on a node
 * (CELLSPAN_MODULES), by Lmod or Environment Modules, before anything is looked for there. */
#ifndef LAUNCHERS_ENVIRONMENT_MODULES_H
#define LAUNCHERS_ENVIRONMENT_MODULES_H

#include "base/buf.h"
#include "base/err.h"

/* A line of the script, after SCRIPT_MARK: why they are not loaded. Exit status 126 follows. */
#define MODULES_FAILED "no modules "

/* The modules to load, as the setting has them; NULL: none. */
const char *modules_told(void);
/* Are they names? The kernel has refused others, but a launcher may have been called by somebody
 * else. */
MUST_USE int modules_check(const char *names, struct err *err);
/* Appends shell code without a newline that loads the modules. NULL: appends nothing. -1: *err says
 * why, as modules_check() does. */
MUST_USE int modules_add(struct buf *out, const char *names, struct err *err);

#endif
