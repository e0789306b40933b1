/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks.c - %ranks: shows the table of the ranks, stops them, restarts them, and more. */
#include "magics/option.h"

#include <string.h>

#include "base/suggest.h"

static const char *const everyone[] = { "all", NULL };

static const struct option options[] = {
    OPTION_ROW_RANKS("only these"),
    OPTION("continue", OPTION_WORD, go_on, .value = "all", .words = everyone, .words_are = "word",
           .help = "of debug: whatever is stopped at a breakpoint goes on, home too"),
    OPTION("timeout", OPTION_TIME, timeout_ns, .value = "T", .min = 1,
           .max = UINT64_C(365) * 24 * 3600 * 1000, .standard = "never",
           .help = "of check: stop it after T: 10, 10s, 1.5m"),
    OPTION("cell", OPTION_NUMBER, cell, .value = "N", .words_are = "number of a cell", .min = 1,
           .max = 1000000000, .standard = "the last one on ranks",
           .help = "of logs: what was printed in In [N]"),
    OPTION_ROW_HELP,
    { 0 },
};

static const struct command commands[] = {
    { "stop", PLAN_RANKS_STOP, "end the ranks; the next distributed cell starts new ones", true },
    { "restart", PLAN_RANKS_RESTART, "end the ranks and start new ones; their variables are gone",
      true },
    { "where", PLAN_RANKS_WHERE,
      "where each rank is in its program now; answered while a cell runs", false },
    { "check", PLAN_RANKS_CHECK, "check nodes and every link between ranks, and measure them",
      false },
    { "logs", PLAN_RANKS_LOGS, "all that was printed in a cell, also what its page left out",
      false },
    { "debug", PLAN_RANKS_DEBUG, "the rank that the debugger shows; or lets all go on", false },
    { "free", PLAN_RANKS_FREE,
      "let go of what failed cells hold, such as GPU memory; the next distributed cell does so, too",
      false },
    { 0 },
};

static const char *const usage[] = { "%ranks                    show the table of the ranks",
                                     "%ranks stop|restart|where|check|free [-r SPEC]",
                                     "%ranks logs [--cell N] [-r SPEC]",
                                     "%ranks debug -r RANK",
                                     "%ranks debug --continue all",
                                     NULL };

static int command_set(const char *word, struct plan *plan, struct err *err)
{
    const char *harmless[sizeof commands / sizeof commands[0]];
    char shown[TOKEN_SHOWN];
    const char *near;
    size_t n = 0;

    for (const struct command *c = commands; c->name; c++) {
        if (strcmp(c->name, word) == 0) {
            plan->ranks_do = (enum plan_ranks)c->number;
            return 0;
        }
        if (!c->destroys)
            harmless[n++] = c->name;
    }
    token_shown(shown, word);
    near = suggest_nearest(word, harmless, n);
    if (near)
        return err_set(
            err,
            "%s: unknown command; did you mean %s? (stop, restart, where, check, logs, debug, free)",
            shown, near);
    return err_set(err, "%s: unknown command (stop, restart, where, check, logs, debug, free)",
                   shown);
}

static bool is_number(const char *text)
{
    return text && *text && text[strspn(text, "0123456789")] == '\0';
}

static int check_debug(const struct call *call, const struct plan *plan, struct err *err)
{
    const char *as, *go_on;

    if (option_given(call, "continue", &go_on) && plan->ranks_do != PLAN_RANKS_DEBUG)
        return err_set(err, "%s: only with %%ranks debug", go_on);
    if (plan->go_on && option_given(call, "ranks", &as))
        return err_set(err, "%s and %s can't be used together", as, go_on);
    if (plan->ranks_do == PLAN_RANKS_DEBUG && !plan->go_on && !is_number(plan->ranks))
        return err_set(err, "%%ranks debug: which rank? (%%ranks debug -r 2, or --continue all)");
    return 0;
}

static int finish(const struct call *call, struct plan *plan, struct err *err)
{
    char shown[TOKEN_SHOWN];
    const char *as;

    plan->kind = PLAN_RANKS;
    plan->ranks_do = PLAN_RANKS_TABLE;
    if (call->words_n && command_set(call->tokens.v[call->words[0]].text, plan, err) < 0)
        return -1;
    if (call->words_n > 1)
        return err_set(err, "%s: unexpected word (%%ranks %s [-r SPEC])",
                       token_shown(shown, call->tokens.v[call->words[1]].text),
                       call->tokens.v[call->words[0]].text);
    if (!call->words_n && option_given(call, "ranks", &as))
        return err_set(
            err,
            "%s %s: a command is missing (%%ranks stop %s %s, or restart, where, check, logs, debug, free)",
            as, token_shown(shown, plan->ranks), as, shown);
    if (check_debug(call, plan, err) < 0)
        return -1;
    if (plan->ranks_do != PLAN_RANKS_CHECK && option_given(call, "timeout", &as))
        return err_set(err, "%s: only with %%ranks check", as);
    if (plan->ranks_do != PLAN_RANKS_LOGS && option_given(call, "cell", &as))
        return err_set(err, "%s: only with %%ranks logs", as);
    return 0;
}

const struct magic magic_ranks = {
    .name = "ranks",
    .usage = usage,
    .about =
        "Shows, stops, restarts, finds or checks the ranks of this notebook, and shows what they printed.",
    .options = options,
    .commands = commands,
    .finish = finish,
};
