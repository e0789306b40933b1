/* torchrun.h - the options of torchrun that %distribute has not: taken where they ask for nothing
 * but what happens anyway, else refused with the word for it here. */
#ifndef CLI_TORCHRUN_H
#define CLI_TORCHRUN_H

#include "base/err.h"

/* argv[*i]: an option. 0: none of torchrun's; 1: it is taken, with its value, and *i stands behind;
 * -1: refused. *set: "NAME=VALUE", what is to be set in the ranks' environment (the caller's,
 * free()), or NULL. */
MUST_USE int torchrun_option(char *const *argv, int *i, char **set, struct err *err);

#endif
