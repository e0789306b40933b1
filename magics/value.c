/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts the text of an option's value into a field of the plan. */
#include "magics/option.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/rank_set.h"
#include "base/seed.h"
#include "base/suggest.h"

#define WORDS_MAX 16u
#define HOUR_MS   UINT64_C(3600000)
#define DAY_MS    (24 * HOUR_MS)

static int no_memory(struct err *err)
{
    return err_set(err, "out of memory");
}

/* The error "-n 0: …" about the option `as` and its value. */
static int wrong(struct err *err, const char *as, const char *text, const char *format, ...)
    PRINTF_LIKE(4, 5);
static int wrong(struct err *err, const char *as, const char *text, const char *format, ...)
{
    char shown[TOKEN_SHOWN], why[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return err_set(err, "%s %s: %s", as, token_shown(shown, text), why);
}

/* The field of plan that the row fills: o->at is the offset of a member of its kind's type. */
static void *field(struct plan *plan, const struct option *o)
{
    return (char *)plan + o->at;
}

static int text_set(char **to, const char *text, struct err *err)
{
    char *copy = strdup(text);

    if (!copy)
        return no_memory(err);
    free(*to);
    *to = copy;
    return 0;
}

size_t list_count(char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

void list_free(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

int list_add(char ***list, const char *text, size_t size)
{
    const size_t n = list_count(*list);
    char **longer = realloc(*list, (n + 2) * sizeof *longer);

    if (!longer)
        return -1;
    *list = longer;
    longer[n] = strndup(text, size);
    longer[n + 1] = NULL;
    return longer[n] ? 0 : -1;
}

static int not_a_word(const struct option *o, const char *as, const char *text, struct err *err)
{
    struct buf all = BUF_INIT;
    size_t n = 0;
    const char *near;
    bool failed = false;

    for (; o->words[n]; n++)
        failed = failed || buf_addf(&all, "%s%s", n ? ", " : "", o->words[n]) < 0;
    near = suggest_nearest(text, o->words, n);
    if (failed)
        no_memory(err);
    else if (near)
        wrong(err, as, text, "unknown %s; did you mean %s? (%s)", o->words_are, near, all.p);
    else
        wrong(err, as, text, "unknown %s (%s)", o->words_are, all.p);
    buf_release(&all);
    return -1;
}

static size_t words_count(const struct option *o)
{
    size_t n = 0;

    while (o->words && o->words[n])
        n++;
    return n;
}

static int word_index(const struct option *o, const char *text)
{
    for (int i = 0; o->words[i]; i++)
        if (strcmp(o->words[i], text) == 0)
            return i;
    return -1;
}

/* Parses a decimal integer. -1: not one. A very large one becomes a value above any limit. */
static int number_parse(const char *text, uint64_t *n)
{
    if (!*text)
        return -1;
    for (*n = 0; *text; text++) {
        if (*text < '0' || *text > '9')
            return -1;
        if (*n > UINT64_MAX / 100)
            *n = UINT64_MAX / 100; /* too large in any case; *n must not wrap */
        *n = *n * 10 + (uint64_t)(*text - '0');
    }
    return 0;
}

/* Why a text is no count. */
static const char *not_whole(const char *text)
{
    char *end;

    (void)strtod(text, &end);
    return isdigit((unsigned char)text[text[0] == '-']) && !*end ? "not a whole number"
                                                                 : "not a number";
}

static int count_set(const struct option *o, const char *as, const char *text, unsigned *to,
                     struct err *err)
{
    const bool negative = text[0] == '-';
    uint64_t n;

    if (word_index(o, text) == 0) {
        *to = PLAN_N_GPU;
        return 0;
    }
    if (number_parse(text + negative, &n) < 0) {
        if (suggest_nearest(text, o->words, 1))
            return wrong(err, as, text, "not a number; did you mean %s? (give a count, or %s)",
                         o->words[0], o->words[0]);
        return wrong(err, as, text, "%s (give a count, or %s)", not_whole(text), o->words[0]);
    }
    if (negative || n < o->min)
        return wrong(err, as, text, "a world needs at least one rank");
    if (n > o->max)
        return wrong(err, as, text, "the largest world is %llu ranks", (unsigned long long)o->max);
    *to = (unsigned)n;
    return 0;
}

static int number_set(const struct option *o, const char *as, const char *text, unsigned *to,
                      struct err *err)
{
    const char *digits = text + (text[0] == '-');
    uint64_t n;

    if (number_parse(digits, &n) < 0)
        return wrong(err, as, text, "%s; give a count", not_whole(text));
    if ((text[0] == '-' || n < o->min || n > o->max) && o->kind == OPTION_GPUS)
        return wrong(err, as, text, "from %llu to %llu %s are possible", (unsigned long long)o->min,
                     (unsigned long long)o->max, o->words_are);
    if (text[0] == '-' || n < o->min || n > o->max)
        return wrong(err, as, text, "the %s is from %llu to %llu", o->words_are,
                     (unsigned long long)o->min, (unsigned long long)o->max);
    *to = (unsigned)n;
    return 0;
}

#define ENGINE_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-"
#define ENGINE_MAX     64u /* letters of its name */

/* Checks only the form of the name: which engines exist is known where they are started. */
static int engine_set(const struct option *o, const char *as, const char *text, char **to,
                      struct err *err)
{
    const size_t n = strcspn(text, ":");
    char name[ENGINE_MAX + 1];
    const char *near;

    if (n == 0)
        return wrong(err, as, text, "the %s is missing (%s %s)", o->words_are, as, o->value);
    if (n > ENGINE_MAX)
        return wrong(err, as, text, "the %s's name has more than %u letters; give a shorter one",
                     o->words_are, ENGINE_MAX);
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    if (strspn(name, ENGINE_LETTERS) != n || name[0] == '-') {
        near = suggest_nearest(name, o->words, words_count(o));
        if (near)
            return wrong(err, as, text, "no %s has that name; did you mean %s?", o->words_are,
                         near);
        return wrong(err, as, text, "no %s has that name (a to z, 0 to 9 and -)", o->words_are);
    }
    if (text[n] && !text[n + 1])
        return wrong(err, as, text, "nothing follows the colon (%s %s)", as, o->value);
    return text_set(to, text, err);
}

static const char *const keywords[] = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",    NULL,
};

/* 0: text is an identifier; -1: *err says why not, after "as text: " */
static int check_identifier(const char *as, const char *text, struct err *err)
{
    for (const char *p = text; *p; p++) {
        const bool letter = (*p | 0x20) >= 'a' && (*p | 0x20) <= 'z';
        const bool digit = *p >= '0' && *p <= '9';

        if (!letter && *p != '_' && !((unsigned char)*p & 0x80) && !(digit && p > text))
            return wrong(err, as, text, "not a Python name (letters, digits and _)");
    }
    if (!*text)
        return err_set(err, "%s: a name is missing", as);
    for (const char *const *k = keywords; *k; k++)
        if (strcmp(*k, text) == 0)
            return wrong(err, as, text, "a Python keyword, not a name; choose another");
    return 0;
}

int names_add(char ***list, const char *as, const char *text, struct err *err)
{
    size_t added = 0;

    while (*text) {
        const size_t n = strcspn(text, ", ");
        size_t at;

        if (n > 0) {
            if (list_count(*list) >= TOKENS_MAX)
                return err_set(err, "%s: more than %u names; give fewer", as, TOKENS_MAX);
            if (list_add(list, text, n) < 0)
                return no_memory(err);
            at = list_count(*list) - 1;
            if (check_identifier(as, (*list)[at], err) < 0)
                return -1;
            added++;
        }
        text += n + (text[n] != '\0');
    }
    return added ? 0 : err_set(err, "%s: a name is missing", as);
}

static int env_set(const char *as, const char *text, char ***list, struct err *err)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text)
        return wrong(err, as, text, "write NAME=VALUE");
    return list_add(list, text, strlen(text)) < 0 ? no_memory(err) : 0;
}

static int time_set(const struct option *o, const char *as, const char *text, uint64_t *to,
                    struct err *err)
{
    uint64_t ns;

    if (duration_read(text, &ns) < 0)
        return wrong(err, as, text, "not a duration (write 10, 10s, 5min, 2h or 500ms)");
    if (ns < o->min * NS_PER_MS)
        return wrong(err, as, text, "too short (at least %llu ms)", (unsigned long long)o->min);
    if (ns > o->max * NS_PER_MS)
        return o->max > DAY_MS ? wrong(err, as, text, "too long (at most %llu days)",
                                       (unsigned long long)(o->max / DAY_MS))
                               : wrong(err, as, text, "too long (at most %lluh)",
                                       (unsigned long long)(o->max / HOUR_MS));
    *to = ns ? ns : 1; /* 0 says that nothing was given */
    return 0;
}

static int seed_set(const char *as, const char *text, char **to, struct err *err)
{
    if (!seed_is(text))
        return wrong(err, as, text, "a seed is a whole number from 0 to " SEED_MOST);
    return text_set(to, text, err);
}

static int ranks_set(const char *as, const char *text, char **to, struct err *err)
{
    struct ranks any = RANKS_INIT;
    struct err why = { "" };
    int rc;

    if (!*text)
        return err_set(err, "%s: a rank is missing", as);
    rc = ranks_parse(&any, text, RANKS_MAX, &why);
    ranks_release(&any);
    if (rc < 0)
        return wrong(err, as, text, "%s", why.text);
    return text_set(to, text, err);
}

int value_ranks_within(const char *n_as, unsigned n, const char *as, const char *spec,
                       struct err *err)
{
    struct ranks all = RANKS_INIT;
    char shown[TOKEN_SHOWN];
    char piece[32];
    long worst = n;
    int rc = ranks_parse(&all, spec, n, NULL);

    if (rc == 0) {
        ranks_release(&all);
        return 0;
    }
    if (ranks_parse(&all, spec, RANKS_MAX, NULL) == 0)
        worst = ranks_next(&all, n);
    ranks_release(&all);
    /* "-7" of 4 names itself */
    for (const char *p = spec; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        struct ranks one = RANKS_INIT;

        snprintf(piece, sizeof piece, "%.*s", (int)strcspn(p, ","), p);
        rc = ranks_parse(&one, piece, n, NULL);
        ranks_release(&one);
        if (rc < 0 && strchr(piece, '-') == piece + strspn(piece, " \t"))
            return err_set(err, "%s %u %s %s: there is no rank %s in a world of %u (ranks 0-%u)",
                           n_as, n, as, token_shown(shown, spec), piece, n, n - 1);
    }
    return err_set(err, "%s %u %s %s: there is no rank %ld in a world of %u (ranks 0-%u)", n_as, n,
                   as, token_shown(shown, spec), worst, n, n - 1);
}

static int gpus_set(const struct option *o, const char *as, const char *text, unsigned *to,
                    struct err *err)
{
    const char *comma = strchr(text, ',');
    const bool both = comma && word_index(o, comma + 1) >= 0;
    char number[16];

    if (word_index(o, text) >= 0) {
        *to = 1 | PLAN_GPUS_OWN;
        return 0;
    }
    if (!isdigit((unsigned char)text[0]) && text[0] != '-')
        return wrong(err, as, text, "not a number (give a count, own, or both as in 2,own)");
    snprintf(number, sizeof number, "%.*s", (int)(both && comma - text < 15 ? comma - text : 15),
             text);
    if (number_set(o, as, both ? number : text, to, err) < 0)
        return -1;
    *to |= both ? PLAN_GPUS_OWN : 0;
    return 0;
}

static int word_set(const struct option *o, const char *as, const char *text, char **to,
                    struct err *err)
{
    if (!text)
        return text_set(to, "auto", err);
    return word_index(o, text) < 0 ? not_a_word(o, as, text, err) : text_set(to, text, err);
}

static int mode_set(const struct option *o, const char *as, const char *text, enum plan_merge *to,
                    struct err *err)
{
    const int i = word_index(o, text);

    if (i < 0)
        return not_a_word(o, as, text, err);
    *to = (enum plan_merge)i;
    return 0;
}

int value_set(const struct option *o, const char *as, const char *text, struct plan *plan,
              struct err *err)
{
    void *to = field(plan, o);

    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)to = true;
        return 0;
    case OPTION_COUNT:
        return count_set(o, as, text, to, err);
    case OPTION_GPUS:
        return gpus_set(o, as, text, to, err);
    case OPTION_NUMBER:
        return number_set(o, as, text, to, err);
    case OPTION_ENGINE:
        return engine_set(o, as, text, to, err);
    case OPTION_RANKS:
        return ranks_set(as, text, to, err);
    case OPTION_MODE:
        return mode_set(o, as, text, to, err);
    case OPTION_WORD:
        return word_set(o, as, text, to, err);
    case OPTION_NAME:
        return check_identifier(as, text, err) < 0 ? -1 : text_set(to, text, err);
    case OPTION_NAMES:
        return names_add(to, as, text, err);
    case OPTION_ENV:
        return env_set(as, text, to, err);
    case OPTION_PATH:
        return *text ? text_set(to, text, err) : err_set(err, "%s: a folder is missing", as);
    case OPTION_PATHS:
        if (!*text)
            return err_set(err, "%s: a file or folder is missing", as);
        return list_add(to, text, strlen(text)) < 0 ? no_memory(err) : 0;
    case OPTION_SEED:
        return seed_set(as, text, to, err);
    case OPTION_TIME:
        return time_set(o, as, text, to, err);
    case OPTION_MODULE:
    case OPTION_HELP:
        return 0;
    }
    return 0;
}

void value_release(const struct option *o, struct plan *plan)
{
    void *at = field(plan, o);

    switch (o->kind) {
    case OPTION_ENGINE:
    case OPTION_RANKS:
    case OPTION_WORD:
    case OPTION_NAME:
    case OPTION_PATH:
    case OPTION_SEED:
        free(*(char **)at);
        *(char **)at = NULL; /* another magic may have an option with the same field */
        break;
    case OPTION_NAMES:
    case OPTION_ENV:
    case OPTION_PATHS:
        list_free(*(char ***)at);
        *(char ***)at = NULL;
        break;
    default:
        break;
    }
}
