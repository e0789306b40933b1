/* SPDX-License-Identifier: BSD-3-Clause */
/* token.c - splits an option line into words (declared in option.h). */
#include "magics/option.h"

#include <stdlib.h>

#include "base/quoted.h"
#include "base/rows.h"
#include "base/utf8.h"

struct splitter {
    struct slice line;
    size_t at;
    bool unfinished;
    struct buf word;
};

/* A backslash at the end of a line joins it with the next one, as in IPython's magics. Returns the
 * size of backslash and newline in bytes; 0: there is none. */
static size_t line_joint(struct slice line, size_t at)
{
    if (line.p[at] != '\\' || at + 1 >= line.n)
        return 0;
    if (line.p[at + 1] == '\n')
        return 2;
    return line.p[at + 1] == '\r' && at + 2 < line.n && line.p[at + 2] == '\n' ? 3 : 0;
}

static void skip_blanks(struct splitter *s)
{
    while (s->at < s->line.n) {
        const size_t joint = line_joint(s->line, s->at);

        if (!joint && !token_blank(s->line.p[s->at]))
            return;
        s->at += joint ? joint : 1;
    }
}

/* At a quote: adds the text up to the closing quote. 1: there is no closing quote. */
static int quoted(struct splitter *s)
{
    const int rc = quoted_read(s->line, &s->at, &s->word);

    return rc > 0 && s->unfinished ? 0 : rc;
}

static int plain(struct splitter *s)
{
    if (s->line.p[s->at] == '\\' && s->at + 1 < s->line.n)
        s->at++;
    return buf_add(&s->word, &s->line.p[s->at++], 1);
}

/* Reads one word, including quoted parts. */
static int word_read(struct splitter *s, struct err *err)
{
    const size_t start = s->at;
    char shown[TOKEN_SHOWN];
    int rc = buf_add(&s->word, "", 0);

    while (rc == 0 && s->at < s->line.n && !token_blank(s->line.p[s->at]) &&
           !line_joint(s->line, s->at)) {
        const char c = s->line.p[s->at];

        if (c == '\0')
            return err_set(err, "the option line holds a NUL character; take it out");
        rc = c == '"' || c == '\'' ? quoted(s) : plain(s);
    }
    if (rc < 0)
        return err_set(err, "out of memory");
    if (memchr(s->word.p, '\0', s->word.n))
        return err_set(err, "the option line holds a NUL character; take it out");
    return rc > 0 ? err_set(err, "%c%s: the quote is not closed; add %c", s->line.p[start],
                            token_shown(shown, s->word.p), s->line.p[start])
                  : 0;
}

static int tokens_add(struct tokens *t, char *text, size_t at, size_t end)
{
    struct token *token = rows_add(&t->v, &t->n, &t->room, sizeof *token);

    if (!token)
        return -1;
    *token = (struct token){ text, at, end };
    return 0;
}

int tokens_split(struct slice line, bool unfinished, struct tokens *t, struct err *err)
{
    struct splitter s = { line, 0, unfinished, BUF_INIT };

    *t = (struct tokens)TOKENS_INIT;
    for (skip_blanks(&s); s.at < line.n; skip_blanks(&s)) {
        const size_t start = s.at;
        char *text;

        if (t->n == TOKENS_MAX) {
            err_set(err, "the option line has more than %u words; give fewer", TOKENS_MAX);
            goto fail;
        }
        if (word_read(&s, err) < 0)
            goto fail;
        if (!(text = buf_take(&s.word)) || tokens_add(t, text, start, s.at) < 0) {
            free(text);
            err_set(err, "out of memory");
            goto fail;
        }
    }
    return 0;
fail:
    buf_release(&s.word);
    tokens_release(t);
    return -1;
}

void tokens_release(struct tokens *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->v[i].text);
    free(t->v);
    *t = (struct tokens)TOKENS_INIT;
}

const char *token_shown(char out[static TOKEN_SHOWN], const char *word)
{
    static const char more[] = "\xe2\x80\xa6"; /* … */
    size_t n = 0;

    for (; word[n] && n < TOKEN_SHOWN - sizeof more; n++)
        out[n] = (unsigned char)word[n] < 0x20 || word[n] == 0x7f ? '?' : word[n];
    if (word[n]) {
        n = utf8_cut(slice_text(word), n);
        memcpy(out + n, more, sizeof more);
        return out;
    }
    out[n] = '\0';
    return out;
}
