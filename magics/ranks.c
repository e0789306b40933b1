/* ranks.c - %ranks: the table of the ranks, and what may be done to them. */
#include "magics/option.h"
#include "magics/suggest.h"

static const struct option options[] = {
    OPTION_ROW_RANKS("stop or restart only these"),
    OPTION_ROW_HELP,
    { 0 },
};

static const struct command commands[] = {
    { "stop", PLAN_RANKS_STOP, "end the ranks; the next distributed cell starts new ones" },
    { "restart", PLAN_RANKS_RESTART, "end the ranks and start new ones; their variables are gone" },
    { 0 },
};

static const char *const usage[] = { "%ranks                    show the table of the ranks",
                                     "%ranks stop|restart [-r SPEC]", NULL };

static int command_set(const char *word, struct plan *plan, struct err *err)
{
    const char *const valid[] = { commands[0].name, commands[1].name };
    char shown[TOKEN_SHOWN];
    const char *near;

    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, word) == 0) {
            plan->ranks_do = (enum plan_ranks)c->number;
            return 0;
        }
    token_shown(shown, word);
    near = suggest_nearest(word, valid, sizeof valid / sizeof valid[0]);
    if (near)
        return err_set(err, "%s: unknown command; did you mean %s? (%s, %s)", shown, near, valid[0], valid[1]);
    return err_set(err, "%s: unknown command (%s, %s)", shown, valid[0], valid[1]);
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
                       token_shown(shown, call->tokens.v[call->words[1]].text), call->tokens.v[call->words[0]].text);
    if (!call->words_n && option_given(call, "ranks", &as))
        return err_set(err, "%s %s: to do what? (%%ranks stop %s %s, or restart)", as, token_shown(shown, plan->ranks),
                       as, shown);
    return 0;
}

const struct magic magic_ranks = {
    .name = "ranks",
    .usage = usage,
    .about = "Shows, stops or restarts the ranks of this notebook.",
    .options = options,
    .commands = commands,
    .finish = finish,
};
