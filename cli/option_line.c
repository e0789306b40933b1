/* SPDX-License-Identifier: BSD-3-Clause */
/* option_line.c - quotes words so that home's expansion leaves them unchanged.
 *
 * Home expands a line with a brace or a dollar by IPython's DollarFormatter: "{{" becomes "{";
 * "$name" becomes a value and "$$" a dollar, but only if an even number of single quotes follows
 * before the next brace. */
#include "cli/private.h"

#include <string.h>

#include "base/utf8.h"

static bool plain(const char *word)
{
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

    return *word && strspn(word, safe) == strlen(word);
}

static int word_quote(struct buf *out, const char *word)
{
    if (plain(word))
        return buf_add_text(out, word);
    if (buf_add(out, "\"", 1) < 0)
        return -1;
    for (; *word; word++)
        if (((*word == '"' || *word == '\\') && buf_add(out, "\\", 1) < 0) ||
            buf_add(out, word, 1) < 0)
            return -1;
    return buf_add(out, "\"", 1);
}

static bool of_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '.' || (unsigned char)c >= 0x80;
}

/* Is the number of single quotes from here to the next brace even? */
static bool even_quotes(const char *at)
{
    bool even = true;

    for (; *at && *at != '{' && *at != '}'; at++)
        if (*at == '\'')
            even = !even;
    return even;
}

static int guard(struct buf *out, const char *line)
{
    const bool expands = strpbrk(line, "{$") != NULL;

    for (; *line; line++) {
        const bool twice = *line == '{' || *line == '}' ||
                           (*line == '$' && of_word(line[1]) && even_quotes(line));

        if (buf_add(out, line, 1) < 0 || (expands && twice && buf_add(out, line, 1) < 0))
            return -1;
    }
    return 0;
}

int option_line_write(struct buf *out, const char *magic, char *const *word, size_t n,
                      struct err *err)
{
    struct buf line = BUF_INIT;
    int rc = buf_addf(&line, "%%%s", magic);

    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *bad = strpbrk(word[i], "\r\n")              ? "holds a line break"
                          : !utf8_is_valid(slice_text(word[i])) ? "is not UTF-8"
                                                                : NULL;

        if (bad) {
            buf_release(&line);
            return err_set(err, "argument %zu %s, which can't be passed on; %s", i + 1, bad,
                           strpbrk(word[i], "\r\n") ? "take it out" : "rename it");
        }
        if ((rc = buf_add(&line, " ", 1)) == 0)
            rc = word_quote(&line, word[i]);
    }
    if (rc == 0)
        rc = guard(out, line.p);
    buf_release(&line);
    return rc < 0 ? err_set(err, "out of memory") : 0;
}
