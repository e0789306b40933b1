/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds a magic, parses the words of a line by its table, and says what an unknown option may have
 * meant. */
#include "magics/option.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/suggest.h"

/* ---- the magics ---- */

#define MAGIC_ROW(name) &magic_##name,
static const struct magic *const all[] = { MAGICS(MAGIC_ROW) };

const struct magic *magic_get(size_t i)
{
    return i < sizeof all / sizeof all[0] ? all[i] : NULL;
}

const struct magic *magic_find(struct slice name)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (slice_is(name, all[i]->name))
            return all[i];
    return NULL;
}

/* ---- the options of one ---- */

bool option_fits(const struct option *o, bool cell)
{
    return !(o->flags & (cell ? OPTION_LINE : OPTION_CELL));
}

static bool valued(const struct option *o)
{
    return o->value && o->kind != OPTION_MODULE;
}

/* Are the first n bytes of word this name? As in torchrun, '_' may replace '-'. */
static bool same_name(const char *name, const char *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!name[i] || name[i] != (word[i] == '_' ? '-' : word[i]))
            return false;
    return !name[n];
}

static const struct option *find_long(const struct magic *m, bool cell, const char *word,
                                      const char **attached)
{
    const size_t n = strcspn(word, "=");
    const struct option *misplaced = NULL;

    *attached = word[n] ? word + n + 1 : NULL;
    for (const struct option *o = m->options; !option_is_last(o); o++) {
        if (!o->name || !same_name(o->name, word, n))
            continue;
        if (option_fits(o, cell))
            return o;
        misplaced = o;
    }
    return misplaced;
}

/* Finds the two-letter form, as in "-np" and "-np=4". */
static const struct option *find_also(const struct magic *m, bool cell, const char *word,
                                      const char **attached)
{
    const size_t n = strcspn(word, "=");

    for (const struct option *o = m->options; !option_is_last(o); o++)
        if (o->also && strlen(o->also) == n && memcmp(o->also, word, n) == 0 &&
            option_fits(o, cell)) {
            *attached = word[n] ? word + n + 1 : NULL;
            return o;
        }
    return NULL;
}

static const struct option *find_short(const struct magic *m, bool cell, const char *word,
                                       const char **attached)
{
    const struct option *misplaced = find_also(m, cell, word, attached);

    if (misplaced)
        return misplaced;

    *attached = word[1] ? word + 1 + (word[1] == '=') : NULL;
    for (const struct option *o = m->options; !option_is_last(o); o++) {
        if (!o->letter || o->letter != word[0] || (word[1] && !valued(o)))
            continue;
        if (option_fits(o, cell))
            return o;
        misplaced = o;
    }
    return misplaced;
}

const struct option *option_find(const struct magic *m, bool cell, const char *word,
                                 const char **attached)
{
    *attached = NULL;
    if (word[0] != '-' || !word[1])
        return NULL;
    return word[1] == '-' ? find_long(m, cell, word + 2, attached)
                          : find_short(m, cell, word + 1, attached);
}

/* The option of a word such as "--like=7", without its value. */
static const char *option_part(char out[static TOKEN_SHOWN], const char *word)
{
    token_shown(out, word);
    if (out[0] == '-' && out[1] == '-')
        out[strcspn(out, "=")] = '\0';
    return out;
}

/* The option for a word that is a value of it: "--panel" is "--merge panel". */
static const struct option *takes_word(const struct call *call, const char *word)
{
    for (const struct option *o = call->magic->options; !option_is_last(o); o++)
        for (const char *const *w = o->words; w && *w && option_fits(o, call->cell); w++)
            if (strcmp(*w, word) == 0)
                return o;
    return NULL;
}

/* What other programs call so: "--quiet" is "--merge rank0". NULL: nothing is known. */
static const char *habit_of(const struct magic *m, const char *word)
{
    for (const struct habit *h = m->habits; h && h->word; h++)
        if (same_name(h->word, word, strlen(word)))
            return h->here;
    return NULL;
}

/* Compares without dashes, which would make any two options near. */
static const struct option *nearest(const struct call *call, const char *word)
{
    const struct option *rows[OPTIONS_MAX];
    const char *names[OPTIONS_MAX], *near;
    size_t n = 0;

    for (const struct option *o = call->magic->options; !option_is_last(o); o++)
        if (o->name && option_fits(o, call->cell) && !(o->flags & OPTION_DESTROYS)) {
            rows[n] = o;
            names[n++] = o->name;
        }
    near = *word ? suggest_nearest(word, names, n) : NULL;
    for (size_t i = 0; near && i < n; i++)
        if (names[i] == near)
            return rows[i];
    return NULL;
}

static int unknown(const struct call *call, const char *word, struct err *err)
{
    char shown[TOKEN_SHOWN];
    const char *name, *here;
    const struct option *o;

    option_part(shown, word);
    name = shown + strspn(shown, "-");
    if ((here = habit_of(call->magic, name)))
        return err_set(err, "%s: unknown option; did you mean %s?", shown, here);
    o = nearest(call, name);
    if (o && strncmp(o->name, name, strlen(name)) == 0) /* unfinished */
        return err_set(err, "%s: unknown option; did you mean --%s?", shown, o->name);
    if (takes_word(call, name))
        return err_set(err, "%s: unknown option; did you mean --%s %s?", shown,
                       takes_word(call, name)->name, name);
    if (o)
        return err_set(err, "%s: unknown option; did you mean --%s?", shown, o->name);
    return err_set(err, "%s: unknown option (%s%s --help lists them)", shown,
                   call->cell ? "%%" : "%", call->magic->name);
}

/* Does the word start with a dash? A negative number ("-r -1") is a value, not an option. */
static bool looks_like_option(const char *word)
{
    return word[0] == '-' && word[1] && !(word[1] >= '0' && word[1] <= '9');
}

bool option_takes(const struct option *o, const char *next)
{
    if (!valued(o) || !next)
        return false;
    if (!(o->flags & OPTION_BARE))
        return !looks_like_option(next);
    for (const char *const *w = o->words; *w; w++)
        if (strcmp(*w, next) == 0)
            return true;
    return false;
}

bool option_goes_on(const struct option *o, const char *value, const char *next)
{
    const size_t n = strlen(value);

    return o->kind == OPTION_ENGINE && next && !looks_like_option(next) &&
           ((n && value[n - 1] == ',') || next[0] == ',');
}

const struct option *option_given(const struct call *call, const char *name, const char **as)
{
    const struct option *o = call->magic->options;

    for (size_t i = 0; !option_is_last(&o[i]); i++)
        if (call->given[i] && o[i].name && strcmp(o[i].name, name) == 0) {
            if (as)
                *as = call->given[i];
            return &o[i];
        }
    return NULL;
}

static int misplaced(const struct call *call, const char *as, struct err *err)
{
    return err_set(err, "%s: only with %s%s", as, call->cell ? "%" : "%%", call->magic->name);
}

static int check_excluded(const struct call *call, const struct option *o, struct err *err)
{
    const char *as;

    if (!o->excludes || !option_given(call, o->excludes, &as))
        return 0;
    return err_set(err, "%s and --%s can't be used together", as, o->name);
}

/* Joins the value, which is the end of the token before *i, with the following words that continue
 * its list. NULL: memory is out. */
static const char *value_join(struct call *call, size_t *i, const struct option *o,
                              const char *value)
{
    struct token *last = &call->tokens.v[*i - 1];
    const size_t at = (size_t)(value - last->text);

    while (*i < call->tokens.n && option_goes_on(o, last->text + at, call->tokens.v[*i].text)) {
        const char *next = call->tokens.v[(*i)++].text;
        const size_t n = strlen(last->text);
        char *longer = realloc(last->text, n + strlen(next) + 1);

        if (!longer)
            return NULL;
        last->text = longer;
        memcpy(longer + n, next, strlen(next) + 1);
    }
    return last->text + at;
}

/* Reads the option at token *i, and moves *i past it and its value. */
static int option_read(struct call *call, size_t *i, struct plan *plan, struct err *err)
{
    const char *word = call->tokens.v[(*i)++].text;
    const char *attached;
    const struct option *o = option_find(call->magic, call->cell, word, &attached);
    const char *next = *i < call->tokens.n ? call->tokens.v[*i].text : NULL;
    size_t row;

    if (!o)
        return unknown(call, word, err);
    row = (size_t)(o - call->magic->options);
    if (word[1] == '-')
        snprintf(call->as[row], sizeof call->as[row], "--%s", o->name);
    else
        snprintf(call->as[row], sizeof call->as[row], "-%c", o->letter);
    if (!option_fits(o, call->cell))
        return misplaced(call, call->as[row], err);
    if (check_excluded(call, o, err) < 0)
        return -1;
    call->given[row] = call->as[row];
    plan->changes_group = plan->changes_group || o->flags & OPTION_GROUP;
    call->help = o->kind == OPTION_HELP;
    call->module = o->kind == OPTION_MODULE;
    if (attached && !valued(o))
        return err_set(err, "%s: takes no value", call->as[row]);
    if (!attached && option_takes(o, next)) {
        attached = next;
        (*i)++;
    }
    if (!attached && valued(o) && !(o->flags & OPTION_BARE))
        return err_set(err, "%s: needs a value (%s %s)", call->as[row], call->as[row], o->value);
    if (attached && !(attached = value_join(call, i, o, attached)))
        return err_set(err, "out of memory");
    return value_set(o, call->as[row], attached, plan, err);
}

/* Takes all tokens from i on as words. */
static void words_rest(struct call *call, size_t i)
{
    while (i < call->tokens.n)
        call->words[call->words_n++] = i++;
}

int options_parse(struct call *call, struct plan *plan, struct err *err)
{
    const bool script = call->magic->script && !call->cell;

    if (call->tokens.n && !(call->words = calloc(call->tokens.n, sizeof *call->words)))
        return err_set(err, "out of memory");
    for (size_t i = 0; i < call->tokens.n;) {
        const char *word = call->tokens.v[i].text;

        if (strcmp(word, "--") == 0) {
            words_rest(call, i + 1);
            return 0;
        }
        if (word[0] != '-' || !word[1]) {
            if (script) {
                words_rest(call, i);
                return 0;
            }
            call->words[call->words_n++] = i++;
            continue;
        }
        if (option_read(call, &i, plan, err) < 0)
            return -1;
        if (call->help)
            return 0;
        if (call->module) {
            words_rest(call, i);
            return 0;
        }
    }
    return 0;
}
