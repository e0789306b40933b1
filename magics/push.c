/* SPDX-License-Identifier: BSD-3-Clause */
/* push.c - %push: copies variables from home to the ranks. */
#include "magics/option.h"

static const struct option options[] = {
    OPTION_ROW_RANKS("only to these ranks"),
    OPTION_ROW_HELP,
    { 0 },
};

static const char *const usage[] = { "%push NAME... [-r SPEC]", NULL };

static int finish(const struct call *call, struct plan *plan, struct err *err)
{
    plan->kind = PLAN_PUSH;
    return call_names(call, plan, err);
}

const struct magic magic_push = {
    .name = "push",
    .names = NAMES_OF_HOME,
    .usage = usage,
    .about = "Copies home's variables to the ranks, under the same names.",
    .options = options,
    .finish = finish,
};
