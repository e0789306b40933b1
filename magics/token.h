/* token.h - splits an option line into words as a shell does, with blanks, quotes and backslashes,
 * but without expansion. */
#ifndef MAGICS_TOKEN_H
#define MAGICS_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

struct token {
    char *text; /* without its quotes; owned by the tokens */
    size_t at;  /* where it starts and ends in the line, bytes */
    size_t end;
};

struct tokens {
    struct token *v;
    size_t n;
};

#define TOKENS_INIT { NULL, 0 }
#define TOKENS_MAX  16384u /* words of one line */

/* unfinished: a quote may be open at the end (the user is still typing). On failure *t is empty. */
MUST_USE int tokens_split(struct slice line, bool unfinished, struct tokens *t, struct err *err);
void tokens_release(struct tokens *t);

/* Writes a word for an error text: on one line, cut to TOKEN_SHOWN bytes. Returns out. */
#define TOKEN_SHOWN 80
const char *token_shown(char out[static TOKEN_SHOWN], const char *word);

#endif
