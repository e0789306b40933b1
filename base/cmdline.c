#include "base/cmdline.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"

/* The row whose name starts with the n bytes; a full match wins. NULL: no row, or *many rows. */
static const struct cmdline_row *row_find(const struct cmdline_row *rows, const char *name,
                                          size_t n, unsigned *many)
{
    const struct cmdline_row *found = NULL;

    *many = 0;
    for (const struct cmdline_row *row = rows; row->name; row++) {
        if (strncmp(row->name, name, n))
            continue;
        if (!row->name[n]) {
            *many = 1;
            return row;
        }
        found = row;
        ++*many;
    }
    return *many == 1 ? found : NULL;
}

#define ROWS_MAX 16u

/* name: n bytes of the argument. */
static int unknown(const struct cmdline_row *rows, const char *name, size_t n, unsigned many,
                   struct err *err)
{
    const char *names[ROWS_MAX];
    char asked[SUGGEST_MAX + 1];
    const char *nearest;
    size_t count = 0;

    if (many)
        return err_set(err, "--%.*s could be one of %u options; write it out", (int)n, name, many);
    for (const struct cmdline_row *row = rows; row->name && count < ROWS_MAX; row++)
        names[count++] = row->name;
    snprintf(asked, sizeof asked, "%.*s", (int)n, name);
    nearest = suggest_nearest(asked, names, count);
    if (nearest)
        return err_set(err, "there is no option --%.*s; did you mean --%s?", (int)n, name, nearest);
    return err_set(err, "there is no option --%.*s; --help lists them", (int)n, name);
}

/* Reads argv[*at], and the next argument if it is the option's value. */
static int take(const struct cmdline_row *rows, int argc, char **argv, int *at, void *into,
                struct err *err)
{
    const char *token = strcmp(argv[*at], "-h") ? argv[*at] : "--help";
    const char *equals = strchr(token, '=');
    const size_t n = equals ? (size_t)(equals - token) - 2 : strlen(token) - 2;
    unsigned many;
    const struct cmdline_row *row = n ? row_find(rows, token + 2, n, &many) : NULL;

    if (!n)
        return err_set(err, "%s: an option's name is missing", token);
    if (!row)
        return unknown(rows, token + 2, n < 200 ? n : 200, many, err);
    if (!row->value) {
        if (equals)
            return err_set(err, "--%s takes no value", row->name);
        *(bool *)((char *)into + row->at) = true;
        return 0;
    }
    if (!equals && *at + 1 >= argc)
        return err_set(err, "--%s needs a value: --%s %s", row->name, row->name, row->value);
    *(const char **)((char *)into + row->at) = equals ? equals + 1 : argv[++*at];
    return 0;
}

int cmdline_parse(const struct cmdline_row *rows, int argc, char **argv, void *into,
                  struct err *err)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) && strcmp(argv[i], "-h"))
            return err_set(err, "%s: only options are taken here; --help lists them", argv[i]);
        if (take(rows, argc, argv, &i, into, err))
            return -1;
    }
    return 0;
}

void cmdline_help(const struct cmdline_row *rows)
{
    char left[64];

    for (const struct cmdline_row *row = rows; row->name; row++) {
        snprintf(left, sizeof left, "--%s%s%s", row->name, row->value ? " " : "",
                 row->value ? row->value : "");
        printf("  %-22s %s\n", left, row->help);
    }
}
