/* SPDX-License-Identifier: BSD-3-Clause */
/* shell_complete.c - prints the completions for a shell (declared in private.h). */
#include "cli/private.h"

#include <stdio.h>
#include <string.h>

#include "magics/option.h"

static void offer(const char *typed, const char *dashes, const char *word, const char *help)
{
    char whole[80];

    snprintf(whole, sizeof whole, "%s%s", dashes, word);
    if (text_begins(whole, typed))
        printf("%s\t%s\n", whole, help);
}

static size_t count(char *const *word)
{
    size_t n = 0;

    while (word[n])
        n++;
    return n;
}

/* ---- install, uninstall ---- */

static const struct cmdline_row *row_of(const struct cmdline_row *rows, const char *word)
{
    for (const struct cmdline_row *row = rows; row->name; row++)
        if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, row->name) == 0)
            return row;
    return NULL;
}

static void complete_rows(const struct cmdline_row *rows, char *const *word, size_t n)
{
    const struct cmdline_row *before = n > 1 ? row_of(rows, word[n - 2]) : NULL;
    const char *const typed = word[n - 1];

    if (before && before->value) {
        if (strcmp(before->value, "DIR") == 0)
            puts(":folders");
        else if (strcmp(before->value, "PATH") == 0)
            puts(":files");
        return;
    }
    for (const struct cmdline_row *row = rows; row->name; row++)
        offer(typed, "--", row->name, row->help);
}

/* ---- run ---- */

static const char python[] = "--python";

static const struct option *option_of(const char *word, const char **attached)
{
    return option_find(&magic_distribute, false, word, attached);
}

static void offer_options(const char *typed)
{
    for (const struct option *o = magic_distribute.options; !option_is_last(o); o++) {
        const char letter[] = { o->letter, '\0' };

        if (option_fits(o, false) && !(o->flags & OPTION_NOTEBOOK))
            offer(typed, o->name ? "--" : "-", o->name ? o->name : letter, o->help);
    }
    offer(typed, "", python, "the ranks' Python");
}

static void offer_value(const struct option *o, const char *typed)
{
    for (const char *const *w = o->words; w && *w; w++)
        offer(typed, "", *w, o->help);
    if (o->kind == OPTION_PATH)
        puts(":folders");
    if (o->kind == OPTION_PATHS)
        puts(":files");
}

/* From the first word behind `run` on. */
static void complete_run(char *const *word, size_t n)
{
    const char *const typed = word[n - 1];
    const struct option *wants = NULL;
    bool path = false;

    for (size_t i = 0; i + 1 < n; i++) {
        const char *attached = NULL;

        if (path || (wants && option_takes(wants, word[i]))) {
            path = false;
            wants = NULL;
            continue;
        }
        wants = option_of(word[i], &attached);
        path = strcmp(word[i], python) == 0;
        if (word[i][0] != '-' || strcmp(word[i], "--") == 0 ||
            (wants && wants->kind == OPTION_MODULE)) {
            puts(":files"); /* the script, or its arguments */
            return;
        }
        if (attached || (wants && !wants->value))
            wants = NULL;
    }
    if (path) {
        puts(":files");
    } else if (wants && typed[0] != '-') {
        offer_value(wants, typed);
        if (wants->flags & OPTION_BARE)
            puts(":files");
    } else if (typed[0] == '-') {
        offer_options(typed);
    } else {
        puts(":files");
    }
}

void shell_complete_print(const struct subcommand *commands, size_t n,
                          const struct cmdline_row *own, char *const *word)
{
    const size_t words = count(word);

    for (size_t i = 0; words > 1 && i < n; i++)
        if (strcmp(commands[i].name, word[0]) == 0) {
            if (commands[i].rows)
                complete_rows(commands[i].rows, word + 1, words - 1);
            else
                complete_run(word + 1, words - 1);
            return;
        }
    if (words != 1)
        return;
    for (size_t i = 0; i < n; i++)
        offer(word[0], "", commands[i].name, commands[i].help);
    for (; own->name; own++)
        if (own->name[1])
            offer(word[0], "--", own->name, own->help);
}
