/* SPDX-License-Identifier: BSD-3-Clause */
/* help.c - the help text of a magic, written from its table. */
#include "magics/option.h"

#include <stdio.h>

#include "base/buf.h"

#define COLUMN 26 /* where the explanations start */

/* noted: for a notebook, with a note if the option needs % or %%; else for `cellspan run`. */
static int option_line(struct buf *out, const struct option *o, bool noted)
{
    const char *standard = !noted && o->alone ? o->alone : o->standard;
    char left[64];
    char letter[8] = "    ";
    char name[40] = "";

    if (o->letter)
        snprintf(letter, sizeof letter, "-%c%s", o->letter, o->name ? ", " : "  ");
    if (o->name)
        snprintf(name, sizeof name, "--%s", o->name);
    snprintf(left, sizeof left, "%s%s%s%s%s", letter, name, o->value ? (o->name ? " " : "") : "",
             o->value && o->flags & OPTION_BARE ? "[" : "", o->value ? o->value : "");
    if (o->value && o->flags & OPTION_BARE)
        strncat(left, "]", sizeof left - strlen(left) - 1);
    if (buf_addf(out, "  %-*s%s", COLUMN, left, strlen(left) < COLUMN ? "" : "  ") < 0 ||
        (o->command && buf_addf(out, "of %s: ", o->command) < 0) || buf_add_text(out, o->help) < 0)
        return -1;
    if (standard && buf_addf(out, " (%s)", standard) < 0)
        return -1;
    if (noted && o->flags & OPTION_CELL && buf_add_text(out, "; only with %%") < 0)
        return -1;
    if (noted && o->flags & OPTION_LINE && buf_add_text(out, "; only with %") < 0)
        return -1;
    return buf_add_text(out, "\n");
}

static int help_write(struct buf *out, const struct magic *m)
{
    for (const char *const *u = m->usage; *u; u++)
        if (buf_addf(out, "%s\n", *u) < 0)
            return -1;
    if (buf_addf(out, "\n%s\n", m->about) < 0)
        return -1;
    for (const struct command *c = m->commands; c && c->name; c++)
        if (buf_addf(out, "%s  %-*s%s\n", c == m->commands ? "\n" : "", COLUMN, c->name, c->help) <
            0)
            return -1;
    if (buf_add_text(out, "\n") < 0)
        return -1;
    for (const struct option *o = m->options; !option_is_last(o); o++)
        if (option_line(out, o, true) < 0)
            return -1;
    return 0;
}

char *help_text(const char *magic)
{
    const struct magic *m = magic_find(slice_text(magic));
    struct buf out = BUF_INIT;

    if (!m)
        return NULL;
    if (help_write(&out, m) < 0) {
        buf_release(&out);
        return NULL;
    }
    return buf_take(&out);
}

char *help_line_options(const char *magic)
{
    const struct magic *m = magic_find(slice_text(magic));
    struct buf out = BUF_INIT;

    for (const struct option *o = m ? m->options : NULL; o && !option_is_last(o); o++)
        if (option_fits(o, false) && !(o->flags & OPTION_NOTEBOOK) &&
            option_line(&out, o, false) < 0) {
            buf_release(&out);
            return NULL;
        }
    return m ? buf_take(&out) : NULL;
}
