/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the magic, splits its line into words, and parses them by its table. */
#include "magics/plan.h"

#include <stdlib.h>
#include <string.h>

#include "magics/option.h"

int call_check_ranks(const struct call *call, const struct plan *plan, struct err *err)
{
    const char *n_as;
    const char *as;

    if (!plan->ranks || plan->n == PLAN_N_UNSET || plan->n == PLAN_N_GPU)
        return 0;
    if (!option_given(call, "nproc", &n_as) || !option_given(call, "ranks", &as))
        return 0;
    return value_ranks_within(n_as, plan->n, as, plan->ranks, err);
}

int call_names(const struct call *call, struct plan *plan, struct err *err)
{
    for (size_t i = 0; i < call->words_n; i++) {
        const char *word = call->tokens.v[call->words[i]].text;
        struct err why = { "" };

        if (strspn(word, ", ") == strlen(word) && *word)
            continue; /* "%push a , b" */
        if (names_add(&plan->names, call->magic->name, word, &why) < 0)
            return err_set(err, "%%%s", why.text);
    }
    if (!plan->names)
        return err_set(err, "%%%s: which names? (%s)", call->magic->name, call->magic->usage[0]);
    return 0;
}

int plan_peek(struct slice cell, struct slice *line)
{
    struct head h;

    if (!head_find(cell, &h))
        return 0;
    *line = h.line;
    return 1;
}

static int plan_fill(struct call *call, struct slice line, bool help, struct plan *plan,
                     struct err *err)
{
    if (!help) {
        if (tokens_split(line, false, &call->tokens, err) < 0 || options_parse(call, plan, err) < 0)
            return -1;
        if (!call->help)
            return call->magic->finish(call, plan, err);
    }
    plan->kind = PLAN_HELP;
    plan->help = help_text(call->magic->name);
    return plan->help ? 0 : err_set(err, "out of memory");
}

int plan_parse(struct slice cell, struct slice line, struct plan *plan, struct err *err)
{
    struct call *call;
    struct head h;
    int rc;

    *plan = (struct plan){ 0 };
    if (!head_find(cell, &h))
        return err_set(err, "the cell does not start with a cellspan magic");
    if (!(call = calloc(1, sizeof *call)))
        return err_set(err, "out of memory");
    call->magic = h.magic;
    call->cell = h.cell;
    call->body = h.body;
    call->lines_above = h.lines_above;
    rc = plan_fill(call, line, h.help, plan, err);
    tokens_release(&call->tokens);
    free(call->words);
    free(call);
    if (rc < 0)
        plan_release(plan);
    return rc;
}

void plan_release(struct plan *plan)
{
    const struct magic *m;

    for (size_t i = 0; (m = magic_get(i)); i++)
        for (const struct option *o = m->options; !option_is_last(o); o++)
            value_release(o, plan);
    free(plan->body);
    free(plan->help);
    list_free(plan->names);
    list_free(plan->argv);
    *plan = (struct plan){ 0 };
}

int plan_set_on(struct plan *plan, const char *as, const char *text, struct err *err)
{
    for (const struct option *o = magic_distribute.options; !option_is_last(o); o++)
        if (o->kind == OPTION_ENGINE)
            return value_set(o, as, text, plan, err);
    return 0;
}

const char *plan_at(struct slice cell, size_t at)
{
    struct head h;

    return head_at(cell, at, &h) ? h.magic->name : NULL;
}

bool plan_is_ranks(struct slice cell, enum plan_ranks command, struct plan *plan)
{
    struct err err = { "" };
    struct slice line;

    if (plan_peek(cell, &line) != 1 || slice_has(line, '{') || slice_has(line, '$') ||
        plan_parse(cell, line, plan, &err) < 0)
        return false;
    if (plan->kind == PLAN_RANKS && plan->ranks_do == command)
        return true;
    plan_release(plan);
    return false;
}

bool plan_only_tells(struct slice cell)
{
    struct err err = { "" };
    struct plan plan;
    struct head h;
    bool help;

    if (!head_find(cell, &h) || slice_has(h.line, '{') || slice_has(h.line, '$'))
        return false;
    if (plan_parse(cell, h.line, &plan, &err) < 0)
        return strcmp(h.magic->name, "ranks") == 0;
    help = plan.kind == PLAN_HELP;
    plan_release(&plan);
    return help;
}
