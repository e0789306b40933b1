/* SPDX-License-Identifier: BSD-3-Clause */
/* option_line.c - words written on an option line are read back unchanged, also after home's
 * expansion of
 * `{name}` and `$name`. */
#include "cli/private.h"

#include "tests/unit/tap.h"

#define WORDS_MOST 4u

struct row {
    const char *word[WORDS_MOST];
    const char *line; /* NULL: refused */
};

static const struct row rows[] = {
    { { "-n", "4", "train.py" }, "%m -n 4 train.py" },
    { { "a b", "", "c" }, "%m \"a b\" \"\" c" },
    { { "say \"hi\"", "back\\slash" }, "%m \"say \\\"hi\\\"\" \"back\\\\slash\"" },
    { { "it's" }, "%m \"it's\"" },
    { { "{x}" }, "%m \"{{x}}\"" },
    { { "{\"a\": 1}" }, "%m \"{{\\\"a\\\": 1}}\"" },
    { { "$HOME" }, "%m \"$$HOME\"" },
    { { "a$", "$$b", "$ 5" }, "%m \"a$\" \"$$$b\" \"$ 5\"" },
    { { "it's $x" }, "%m \"it's $$x\"" },  /* no quote follows: it would be expanded */
    { { "$x isn't" }, "%m \"$x isn't\"" }, /* one quote follows: IPython leaves it alone */
    { { "}" }, "%m \"}\"" },               /* nothing in the line asks for expansion */
    { { "}", "$x" }, "%m \"}}\" \"$$x\"" },
    { { "#", "x?" }, "%m \"#\" \"x?\"" },
    { { "two\nlines" }, NULL },
    { { "a", "b\r" }, NULL },
    { { "a", "caf\xe9.py" }, NULL },
};

int main(void)
{
    for (const struct row *r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
        struct buf line = BUF_INIT;
        struct err err = { "" };
        char *word[WORDS_MOST];
        size_t n = 0;
        int rc;

        for (; n < WORDS_MOST && r->word[n]; n++)
            word[n] = (char *)(uintptr_t)r->word[n];
        rc = option_line_write(&line, "m", word, n, &err);
        if (r->line)
            is_text(line.p, r->line, "%s is written so that it comes back", r->line);
        else
            ok(rc < 0 && (strstr(err.text, "argument 1 holds a line break") ||
                          strstr(err.text, "argument 2 holds a line break") ||
                          strstr(err.text, "argument 2 is not UTF-8")),
               "%s", err.text);
        buf_release(&line);
    }
    return plan_done();
}
