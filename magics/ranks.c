/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks.c - %ranks: shows the table of the ranks, stops them, restarts them, and more. */
#include "magics/option.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"

static const char *const everyone[] = { "all", NULL };

static const struct option options[] = {
    OPTION_ROW_RANKS("only these"),
    OPTION("continue", OPTION_WORD, go_on, .value = "all", .words = everyone, .words_are = "word",
           .command = "debug", .help = "whatever is stopped at a breakpoint goes on, home too"),
    OPTION("timeout", OPTION_TIME, timeout_ns, .value = "T", .min = 1,
           .max = UINT64_C(365) * 24 * 3600 * 1000, .standard = "never", .command = "check",
           .help = "stop it after T: 10, 10s, 5min"),
    OPTION("cell", OPTION_NUMBER, cell, .value = "N", .words_are = "number of a cell", .min = 1,
           .max = 1000000000, .standard = "the last one on ranks", .command = "logs",
           .help = "what was printed in In [N]"),
    OPTION_ROW_HELP,
    { 0 },
};

static bool is_number(const char *text)
{
    return text && *text && text[strspn(text, "0123456789")] == '\0';
}

static int check_debug(const struct call *call, const struct plan *plan, struct err *err)
{
    const char *as, *go_on;

    if (option_given(call, "continue", &go_on))
        return option_given(call, "ranks", &as)
                   ? err_set(err, "%s and %s can't be used together", as, go_on)
                   : 0;
    if (!is_number(plan->ranks))
        return err_set(err, "%%ranks debug: which rank? (%%ranks debug -r 2, or --continue all)");
    return 0;
}

/* All ranks of a machine have the same modules. */
static int check_code(const struct call *call, const struct plan *plan, struct err *err)
{
    const char *as;

    (void)plan;
    return option_given(call, "ranks", &as)
               ? err_set(err, "%s and %%ranks code can't be used together", as)
               : 0;
}

#define COMMAND(name_, number_, ...) { .name = name_, .number = number_, __VA_ARGS__ }

static const struct command commands[] = {
    COMMAND("stop", PLAN_RANKS_STOP, .destroys = true,
            .help = "end the ranks; the next distributed cell starts new ones"),
    COMMAND("restart", PLAN_RANKS_RESTART, .destroys = true,
            .help = "end the ranks and start new ones; their variables are gone"),
    COMMAND("where", PLAN_RANKS_WHERE,
            .help = "where each rank is in its program now; answered while a cell runs"),
    COMMAND("check", PLAN_RANKS_CHECK,
            .help = "check nodes and every link between ranks, and measure them"),
    COMMAND("logs", PLAN_RANKS_LOGS,
            .help = "all that was printed in a cell, also what its page left out"),
    COMMAND("code", PLAN_RANKS_CODE, .check = check_code,
            .help = "which of the notebook's modules other machines have got"),
    COMMAND("debug", PLAN_RANKS_DEBUG, .check = check_debug,
            .help = "the rank that the debugger shows; or lets all go on"),
    COMMAND(
        "free", PLAN_RANKS_FREE,
        .help =
            "let go of what failed cells hold, such as GPU memory; the next distributed cell does so, too"),
    { 0 },
};

#define NAMES_ROOM 128u

/* The names from this row on: "restart, where, check". */
static const char *names_of(char out[static NAMES_ROOM], const struct command *from)
{
    size_t n = 0;

    out[0] = '\0';
    for (const struct command *c = from; c->name && n < NAMES_ROOM; c++)
        n += (size_t)snprintf(out + n, NAMES_ROOM - n, "%s%s", n ? ", " : "", c->name);
    return out;
}

const char *ranks_command_name(enum plan_ranks command)
{
    for (const struct command *c = commands; c->name; c++)
        if (c->number == (int)command)
            return c->name;
    return "";
}

static const char *const usage[] = { "%ranks                    show the table of the ranks",
                                     "%ranks stop|restart|where|check|free [-r SPEC]",
                                     "%ranks logs [--cell N] [-r SPEC]",
                                     "%ranks code",
                                     "%ranks debug -r RANK",
                                     "%ranks debug --continue all",
                                     NULL };

/* NULL: there is no such command. */
static const struct command *command_of(const char *word, struct err *err)
{
    const char *harmless[sizeof commands / sizeof commands[0]];
    char shown[TOKEN_SHOWN], names[NAMES_ROOM];
    const char *near;
    size_t n = 0;

    for (const struct command *c = commands; c->name; c++) {
        if (strcmp(c->name, word) == 0)
            return c;
        if (!c->destroys)
            harmless[n++] = c->name;
    }
    token_shown(shown, word);
    names_of(names, commands);
    near = suggest_nearest(word, harmless, n);
    return near ? err_null(err, "%s: unknown command; did you mean %s? (%s)", shown, near, names)
                : err_null(err, "%s: unknown command (%s)", shown, names);
}

static int no_command(const struct call *call, const struct plan *plan, struct err *err)
{
    char shown[TOKEN_SHOWN], names[NAMES_ROOM];
    const char *as;

    if (!option_given(call, "ranks", &as))
        return 0;
    return err_set(err, "%s %s: a command is missing (%%ranks %s %s %s, or %s)", as,
                   token_shown(shown, plan->ranks), commands->name, as, shown,
                   names_of(names, commands + 1));
}

/* c: NULL: there is no command. */
static int check_options(const struct call *call, const struct command *c, struct err *err)
{
    for (size_t i = 0; !option_is_last(&options[i]); i++) {
        const char *of = options[i].command;

        if (call->given[i] && of && !(c && strcmp(of, c->name) == 0))
            return err_set(err, "%s: only with %%ranks %s", call->given[i], of);
    }
    return 0;
}

static int finish(const struct call *call, struct plan *plan, struct err *err)
{
    const struct command *c = NULL;
    char shown[TOKEN_SHOWN];

    plan->kind = PLAN_RANKS;
    plan->ranks_do = PLAN_RANKS_TABLE;
    if (call->words_n && !(c = command_of(call->tokens.v[call->words[0]].text, err)))
        return -1;
    if (call->words_n > 1)
        return err_set(err, "%s: unexpected word (%%ranks %s [-r SPEC])",
                       token_shown(shown, call->tokens.v[call->words[1]].text), c->name);
    if ((!c && no_command(call, plan, err) < 0) || check_options(call, c, err) < 0)
        return -1;
    if (c)
        plan->ranks_do = (enum plan_ranks)c->number;
    return c && c->check ? c->check(call, plan, err) : 0;
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
