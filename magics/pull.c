/* SPDX-License-Identifier: BSD-3-Clause */
/* pull.c - %pull: copies variables from the ranks to home. */
#include "magics/option.h"

static const struct option options[] = {
    OPTION_ROW_RANKS("only from these ranks"),
    OPTION("into", OPTION_NAME, into, .value = "NAME", .standard = "the same name",
           .help = "what it is called at home"),
    OPTION_ROW_HELP,
    { 0 },
};

static const char *const usage[] = { "%pull NAME... [-r SPEC] [--into NAME]", NULL };

static int finish(const struct call *call, struct plan *plan, struct err *err)
{
    char shown[TOKEN_SHOWN];

    plan->kind = PLAN_PULL;
    if (call_names(call, plan, err) < 0)
        return -1;
    if (plan->into && plan->names[1])
        return err_set(err, "--into %s: holds one variable, %zu are pulled; name one",
                       token_shown(shown, plan->into), list_count(plan->names));
    return 0;
}

const struct magic magic_pull = {
    .name = "pull",
    .names = NAMES_OF_RANKS,
    .usage = usage,
    .about =
        "Copies the ranks' variables home: a list by rank, or, with -r 0 and the like, that rank's value.",
    .options = options,
    .finish = finish,
};
