/* SPDX-License-Identifier: BSD-3-Clause */
/* torchrun.c - reads the options of torchrun for `cellspan run` (declared in private.h). */
#include "cli/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINES "the ranks of all machines are started from here: --on ssh:host1,host2 says where"
#define OUTPUT   "all ranks' lines come here; --merge prefix labels each, and > FILE keeps them"

static const struct torchrun_option {
    const char *name;
    const char *only; /* the value that it may have; NULL: any; "": it takes none */
    const char *env;  /* what its value becomes; NULL: nothing, it is so anyway */
    const char *why;  /* it is refused: with another value, or, where `only` is NULL, with any */
} rows[] = {
    { "standalone", "", NULL, NULL },
    { "nnodes", "1", NULL, MACHINES },
    { "node-rank", "0", NULL, MACHINES },
    { "max-restarts", "0", NULL, "ranks that fail are not started again: repeat the command" },
    { "no-python", "", NULL, "what runs is a Python script, or with -m a module" },
    { "log-dir", NULL, NULL, OUTPUT },
    { "redirects", NULL, NULL, OUTPUT },
    { "tee", NULL, NULL, OUTPUT },
    { "local-ranks-filter", NULL, NULL, "--merge rank0 shows rank 0 alone" },
    { "rdzv-backend", NULL, NULL, NULL },
    { "rdzv-endpoint", NULL, NULL, NULL },
    { "rdzv-id", NULL, NULL, NULL },
    { "rdzv-conf", NULL, NULL, NULL },
    { "monitor-interval", NULL, NULL, NULL },
    { "start-method", NULL, NULL, NULL },
    { "role", NULL, "ROLE_NAME", NULL },
    { "local-addr", NULL, NULL, NULL },
    { "master-addr", NULL, "MASTER_ADDR", NULL },
    { "master-port", NULL, "MASTER_PORT", NULL },
};

/* The row of "--max-restarts" or "--max_restarts", with "=…" behind it or not. */
static const struct torchrun_option *find(const char *word)
{
    const size_t n = strcspn(word, "=");

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        size_t at = 0;

        while (at < n - 2 && (rows[k].name[at] == word[at + 2] ||
                              (rows[k].name[at] == '-' && word[at + 2] == '_')))
            at++;
        if (at == n - 2 && !rows[k].name[at])
            return &rows[k];
    }
    return NULL;
}

static int set_env(const struct torchrun_option *row, const char *value, char **set,
                   struct err *err)
{
    const size_t n = strlen(row->env) + strlen(value) + 2;

    if (!(*set = malloc(n)))
        return err_set(err, "out of memory");
    snprintf(*set, n, "%s=%s", row->env, value);
    return 1;
}

int torchrun_option(char *const *argv, int *i, char **set, struct err *err)
{
    const char *word = argv[*i], *value = strchr(word, '=');
    const struct torchrun_option *row = strncmp(word, "--", 2) == 0 && word[2] ? find(word) : NULL;
    const bool valued = row && !(row->only && !row->only[0]);

    *set = NULL;
    if (!row)
        return 0;
    ++*i;
    if (value)
        value++;
    else if (valued && !(value = argv[*i]))
        return err_set(err, "--%s: needs a value", row->name);
    else if (valued)
        ++*i;
    if (row->why && (!valued || !row->only || strcmp(value, row->only) != 0))
        return err_set(err, "--%s%s%s: %s", row->name, valued ? " " : "", valued ? value : "",
                       row->why);
    return row->env ? set_env(row, value, set, err) : 1;
}
