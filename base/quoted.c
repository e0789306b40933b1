/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/quoted.h"

static bool is_special(char c)
{
    return c == '"' || c == '\\' || c == '$' || c == '`';
}

int quoted_read(struct slice text, size_t *at, struct buf *word)
{
    const char quote = text.p[(*at)++];

    for (; *at < text.n; ++*at) {
        char c = text.p[*at];

        if (c == quote) {
            ++*at;
            return 0;
        }
        if (quote == '"' && c == '\\' && *at + 1 < text.n && is_special(text.p[*at + 1]))
            c = text.p[++*at];
        if (buf_add(word, &c, 1) < 0)
            return -1;
    }
    return 1;
}
