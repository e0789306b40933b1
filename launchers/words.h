/* words.h - splits command lines into words as a shell does, and quotes words for a shell. */
#ifndef LAUNCHERS_WORDS_H
#define LAUNCHERS_WORDS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct words {
    char **v; /* owned, NULL-terminated; NULL while there are none */
    size_t n;
};

#define WORDS_INIT { NULL, 0 }

void words_release(struct words *w);
/* Appends a copy. -1: memory is out, *w is unchanged. */
MUST_USE int words_add(struct words *w, const char *word);
/* Appends the words of text. Blanks separate words; '...', "..." and \ quote as in a POSIX shell;
 * nothing is expanded. On failure *w is unchanged. */
MUST_USE int words_split(struct words *w, const char *text, struct err *err);
/* Appends the word for a POSIX shell, in single quotes if needed. A newline becomes "$n", so that
 * the result is one line: the shell's variable n must hold a newline. -1: memory is out. */
MUST_USE int words_quote(struct buf *out, const char *word);

#endif
