/* SPDX-License-Identifier: BSD-3-Clause */
/* complete.c - Tab completion on a magic's line: names of magics, options, and values that are
 * known here. Home completes Python names and paths, so for these the answer is 0. */
#include <stdio.h>

#include "base/buf.h"
#include "magics/option.h"

/* with this many letters typed, the name can hardly be one of IPython's magics */
#define NAME_LETTERS 3u
#define RANKS_SHOWN  64u

struct offers {
    struct buf *out;
    struct slice typed; /* the word so far */
    bool any;
    bool failed;
};

/* Needs no JSON escapes: all offers are ASCII from tables, or numbers. */
static void offer(struct offers *o, const char *before, const char *word)
{
    char whole[80];

    snprintf(whole, sizeof whole, "%s%s", before, word);
    if (strlen(whole) < o->typed.n || memcmp(whole, o->typed.p, o->typed.n) != 0)
        return;
    if (buf_addf(o->out, "%s\"%s\"", o->any ? "," : "", whole) < 0)
        o->failed = true;
    o->any = true;
}

static void offer_words(struct offers *o, const char *const *words)
{
    for (; words && *words; words++)
        offer(o, "", *words);
}

static void offer_options(struct offers *o, const struct magic *m, bool cell, const bool *given)
{
    for (const struct option *row = m->options; !option_is_last(row); row++) {
        const char letter[] = { row->letter, '\0' };
        const bool again = row->kind == OPTION_ENV || row->kind == OPTION_NAMES ||
                           row->kind == OPTION_PATHS;

        if (!option_fits(row, cell) || (given[row - m->options] && !again))
            continue;
        if (row->name)
            offer(o, "--", row->name);
        else
            offer(o, "-", letter);
    }
}

static void offer_ranks(struct offers *o, unsigned world)
{
    char number[16];

    for (unsigned k = 0; k < world && k < RANKS_SHOWN; k++) {
        snprintf(number, sizeof number, "%u", k);
        offer(o, "", number);
    }
    offer(o, "", "all");
}

/* Where the number that is being typed starts: after the last comma, or the dash of a range. */
static size_t rank_start(struct slice typed)
{
    size_t at = typed.n;

    while (at > 0 && typed.p[at - 1] != ',' &&
           !(typed.p[at - 1] == '-' && at > 1 && typed.p[at - 2] != ','))
        at--;
    return at;
}

/* 1: offered the values that are known here; 0: home must complete. */
static int offer_values(struct offers *o, const struct option *row, unsigned world, size_t *start)
{
    size_t skip;

    switch (row->kind) {
    case OPTION_RANKS:
        skip = rank_start(o->typed);
        o->typed = slice_of(o->typed.p + skip, o->typed.n - skip);
        *start += skip;
        offer_ranks(o, world);
        return 1;
    case OPTION_COUNT:
    case OPTION_GPUS:
    case OPTION_ENGINE:
    case OPTION_MODE:
    case OPTION_WORD:
        offer_words(o, row->words);
        return 1;
    case OPTION_NUMBER:
    case OPTION_SEED:
    case OPTION_TIME:
    case OPTION_ENV:
        return 1; /* nothing to offer, but not a Python name either */
    default:
        return 0;
    }
}

struct typed_line {
    const struct magic *magic;
    bool cell;
    bool given[OPTIONS_MAX];
    const struct option *wants; /* the option whose value comes next, or NULL */
    bool over;                  /* the options have ended; a script's arguments follow */
    size_t words; /* number of words that are not options, before the one being typed */
};

/* Reads the finished words before the one being typed. */
static void typed_line_read(struct typed_line *p, const struct tokens *t, size_t n)
{
    for (size_t i = 0; i < n && !p->over; i++) {
        const char *word = t->v[i].text;
        const char *attached = NULL;
        const struct option *o;

        if (p->wants && option_takes(p->wants, word)) {
            p->wants = NULL;
            continue;
        }
        p->wants = NULL;
        if (word[0] != '-' || !word[1]) {
            p->words++;
            p->over = p->magic->script && !p->cell;
            continue;
        }
        o = option_find(p->magic, p->cell, word, &attached);
        if (strcmp(word, "--") == 0 || (o && o->kind == OPTION_MODULE))
            p->over = true;
        else if (o && !attached && o->value)
            p->wants = o;
        if (o)
            p->given[o - p->magic->options] = true;
    }
}

static void offer_commands(struct offers *o, const struct magic *m)
{
    for (const struct command *c = m->commands; c && c->name; c++)
        offer(o, "", c->name);
}

/* *start: in: where the word being typed starts in the line; out: where the offers start. */
static int offer_line(struct offers *o, const struct typed_line *p, const char *typed,
                      struct slice raw, size_t *start, unsigned world)
{
    const char *attached = NULL;
    const struct option *row = option_find(p->magic, p->cell, typed, &attached);
    const char *equals = raw.n ? memchr(raw.p, '=', raw.n) : NULL;

    o->typed = raw;
    if (p->over)
        return 0;
    if (p->wants && (typed[0] != '-' || !typed[1])) {
        const int known = offer_values(o, p->wants, world, start);

        if (!(p->wants->flags & OPTION_BARE) || raw.n)
            return known;
    }
    if (row && attached && (equals || typed[1] != '-')) { /* --merge=f, -r0 */
        const size_t skip = equals ? (size_t)(equals - raw.p) + 1 : 2;

        o->typed = slice_of(raw.p + skip, raw.n - skip);
        *start += skip;
        return offer_values(o, row, world, start);
    }
    if (typed[0] == '-' || (!typed[0] && (p->cell || p->magic->script || p->words))) {
        offer_options(o, p->magic, p->cell, p->given);
        return 1;
    }
    if (!p->magic->commands || p->words)
        return p->cell;
    offer_commands(o, p->magic);
    if (!typed[0])
        offer_options(o, p->magic, p->cell, p->given);
    return 1;
}

static int complete_line(struct offers *o, const struct head *h, struct slice cell, size_t at,
                         unsigned world, size_t *start)
{
    const size_t line_at = (size_t)(h->line.p - cell.p);
    const struct slice line = slice_of(h->line.p, at - line_at);
    struct typed_line p = { .magic = h->magic, .cell = h->cell };
    struct tokens t;
    size_t word_at = line.n;
    const char *typed = "";
    int rc;

    if (tokens_split(line, true, &t, NULL) < 0)
        return 0;
    if (t.n && t.v[t.n - 1].end == line.n) { /* the cursor touches a word */
        word_at = t.v[t.n - 1].at;
        typed = t.v[t.n - 1].text;
        typed_line_read(&p, &t, t.n - 1);
    } else {
        typed_line_read(&p, &t, t.n);
    }
    rc = offer_line(o, &p, typed, slice_of(line.p + word_at, line.n - word_at), &word_at, world);
    *start = line_at + word_at;
    tokens_release(&t);
    return rc;
}

/* "%%dis": the name itself. */
static int complete_name(struct offers *o, struct slice cell, size_t at, size_t *start)
{
    size_t percents = 0;
    size_t line = at;

    while (line > 0 && cell.p[line - 1] != '\n')
        line--;
    while (line < at && (cell.p[line] == ' ' || cell.p[line] == '\t'))
        line++;
    while (percents < 2 && line + percents < at && cell.p[line + percents] == '%')
        percents++;
    if (percents == 0 || at - line - percents < NAME_LETTERS)
        return 0;
    o->typed = slice_of(cell.p + line, at - line);
    *start = line;
    for (size_t i = 0; magic_get(i); i++)
        if (percents == 1 || magic_get(i)->cell)
            offer(o, percents == 1 ? "%" : "%%", magic_get(i)->name);
    return o->any;
}

int complete_cell(struct slice cell, size_t at, unsigned world, struct buf *out, size_t *start)
{
    struct offers o = { .out = out };
    const size_t before = out->n;
    struct head h;
    int rc;

    if (at > cell.n)
        return 0;
    if (buf_add_text(out, "[") < 0)
        return -1;
    if (head_at(cell, at, &h) && !h.help && at > (size_t)(h.line.p - cell.p))
        rc = complete_line(&o, &h, cell, at, world, start);
    else
        rc = complete_name(&o, cell, at, start);
    if (o.failed || buf_add_text(out, "]") < 0)
        rc = -1;
    if (rc <= 0 && out->p) {
        out->n = before;
        out->p[before] = '\0';
    }
    return rc;
}
