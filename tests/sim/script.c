/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/script.h"

#include <stdbool.h>

/* Takes the word off the line, and the blank behind it. */
static bool word_take(struct slice *line, const char *word)
{
    const size_t n = strlen(word);

    if (line->n < n || memcmp(line->p, word, n) != 0 || (line->n > n && line->p[n] != ' '))
        return false;
    *line = slice_of(line->p + n + (line->n > n), line->n - n - (line->n > n));
    return true;
}

/* The same of a number; `behind`: what stands right behind it, besides the end. */
static bool number_take(struct slice *line, char behind, uint64_t *out)
{
    uint64_t n = 0;
    size_t k = 0;

    for (; k < line->n && k < 9 && line->p[k] >= '0' && line->p[k] <= '9'; k++)
        n = 10 * n + (uint64_t)(line->p[k] - '0');
    if (k == 0 || (k < line->n && line->p[k] != behind))
        return false;
    *line = slice_of(line->p + k + (k < line->n), line->n - k - (k < line->n));
    *out = n;
    return true;
}

/* Is the line for this one? What chooses is taken off. */
static bool is_for(struct slice *line, unsigned rank, unsigned node)
{
    const bool by_rank = word_take(line, "rank"), by_node = !by_rank && word_take(line, "node");
    uint64_t n = 0;

    if (!by_rank && !by_node)
        return true;
    if (!number_take(line, ':', &n) || n != (by_rank ? rank : node))
        return false;
    while (line->n && line->p[0] == ' ')
        *line = slice_of(line->p + 1, line->n - 1);
    return true;
}

static bool parse(struct slice line, struct step *s)
{
    *s = (struct step){ .kind = STEP_END };
    if (word_take(&line, "print") && number_take(&line, ' ', &s->n)) {
        s->kind = STEP_PRINT;
        if (!number_take(&line, ' ', &s->m) || s->m == 0)
            s->m = s->n;
    } else if (word_take(&line, "sleep") && number_take(&line, ' ', &s->n)) {
        s->kind = STEP_SLEEP;
    } else if (word_take(&line, "hang")) {
        s->kind = STEP_HANG;
    } else if (word_take(&line, "fail")) {
        s->kind = STEP_FAIL;
    } else if (word_take(&line, "exit") && number_take(&line, ' ', &s->n)) {
        s->kind = STEP_EXIT;
    } else if (word_take(&line, "agent")) {
        s->kind = slice_is(line, "exit")     ? STEP_LEAVE
                  : slice_is(line, "freeze") ? STEP_FREEZE
                                             : STEP_END;
    }
    s->text = line;
    return s->kind != STEP_END;
}

struct step script_next(struct slice *script, unsigned rank, unsigned node)
{
    struct step s;

    while (script->n) {
        struct slice line = slice_line(script);

        if (is_for(&line, rank, node) && parse(line, &s))
            return s;
    }
    return (struct step){ .kind = STEP_END };
}
