/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - splits a command line into words as a shell does, and quotes words (declared in
 * launcher.h). */
#include "launchers/launcher.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/quoted.h"

void words_release(struct words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->v[i]);
    free(w->v);
    *w = (struct words)WORDS_INIT;
}

/* Takes ownership of word, also on failure. */
static int add_taken(struct words *w, char *word)
{
    char **v = word ? realloc(w->v, (w->n + 2) * sizeof *v) : NULL;

    if (!v) {
        free(word);
        return -1;
    }
    w->v = v;
    v[w->n++] = word;
    v[w->n] = NULL;
    return 0;
}

int words_add(struct words *w, const char *word)
{
    return add_taken(w, strdup(word));
}

static void cut(struct words *w, size_t n)
{
    while (w->n > n)
        free(w->v[--w->n]);
    if (w->v)
        w->v[w->n] = NULL;
}

/* ---- reading ---- */

struct word_reader {
    const char *text; /* the whole text, for errors */
    const char *at;
    struct buf word;
};

static int out_of_memory(struct err *err)
{
    return err_set(err, "out of memory");
}

static int read_quoted(struct word_reader *r, struct err *err)
{
    const char *const from = r->at;
    size_t n = 0;
    const int rc = quoted_read(slice_text(from), &n, &r->word);

    r->at += n;
    return rc < 0   ? out_of_memory(err)
           : rc > 0 ? err_set(err, "a %c has no end: %s", *from, from)
                    : 0;
}

/* Reads one word into r->word. */
static int read_word(struct word_reader *r, struct err *err)
{
    while (*r->at && !strchr(" \t\n", *r->at)) {
        const char c = *r->at;

        if (c == '\'' || c == '"') {
            if (read_quoted(r, err) < 0)
                return -1;
            continue;
        }
        r->at++;
        if (c == '\\' && !*r->at)
            return err_set(err, "a \\ at the end quotes nothing: %s", r->text);
        if (buf_add(&r->word, c == '\\' ? r->at++ : &c, 1) < 0)
            return out_of_memory(err);
    }
    return 0;
}

int words_split(struct words *w, const char *text, struct err *err)
{
    struct word_reader r = { text, text, BUF_INIT };
    const size_t before = w->n;
    int rc = 0;

    while (rc == 0) {
        r.at += strspn(r.at, " \t\n");
        if (!*r.at)
            break;
        buf_clear(&r.word);
        if ((rc = read_word(&r, err)) == 0 && words_add(w, r.word.p ? r.word.p : "") < 0)
            rc = out_of_memory(err);
    }
    buf_release(&r.word);
    if (rc < 0)
        cut(w, before);
    return rc;
}

/* ---- writing ---- */

static bool is_plain(const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,@%+-";

    return *word && word[strspn(word, plain)] == '\0';
}

int words_quote(struct buf *out, const char *word)
{
    const size_t before = out->n;
    int rc;

    if (is_plain(word))
        return buf_add_text(out, word);
    rc = buf_add_text(out, "'");
    for (; rc == 0 && *word; word++)
        switch (*word) {
        case '\'':
            rc = buf_add_text(out, "'\\''");
            break;
        case '\n':
            rc = buf_add_text(out, "'\"$n\"'");
            break;
        default:
            rc = buf_add(out, word, 1);
        }
    if (rc == 0 && buf_add_text(out, "'") == 0)
        return 0;
    out->n = before;
    if (out->p)
        out->p[before] = '\0';
    return -1;
}

void text_replace(char **place, const char *text)
{
    char *copy = text ? strdup(text) : NULL;

    free(*place);
    *place = copy;
}

bool text_is_new(struct buf *said, const char *line)
{
    struct slice rest = buf_slice(said);

    while (rest.n)
        if (slice_is(slice_line(&rest), line))
            return false;
    if (said->n >= SAID_MAX)
        buf_clear(said);
    (void)!buf_addf(said, "%s\n", line); /* without memory it is told again */
    return true;
}
