/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cmdline.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"

#define ROWS_MAX  16u
#define SHOWN_MAX 200 /* bytes of an argument that an error shows */

static const char *dashes(const struct cmdline_row *row)
{
    return row->name[1] ? "--" : "-";
}

/* The row whose name starts with the n bytes; a whole name wins. NULL: none, or *many of them. */
static const struct cmdline_row *row_of(const struct cmdline_row *rows, const char *name, size_t n,
                                        unsigned *many)
{
    const struct cmdline_row *found = NULL;

    *many = 0;
    for (const struct cmdline_row *row = rows; row->name; row++) {
        if (!row->name[1] || strncmp(row->name, name, n))
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

static void *unknown(const struct cmdline_row *rows, const char *name, int n, unsigned many,
                     struct err *err)
{
    const char *names[ROWS_MAX];
    char asked[SUGGEST_MAX + 1];
    const char *nearest;
    size_t count = 0;

    if (many)
        return err_null(err, "--%.*s could be one of %u options; write it out", n, name, many);
    for (const struct cmdline_row *row = rows; row->name && count < ROWS_MAX; row++)
        names[count++] = row->name;
    snprintf(asked, sizeof asked, "%.*s", n, name);
    nearest = suggest_nearest(asked, names, count);
    if (nearest)
        return err_null(err, "there is no option --%.*s; did you mean --%s?", n, name, nearest);
    return err_null(err, "there is no option --%.*s; --help lists them", n, name);
}

/* The row that the argument names. *value: what follows its '=', or NULL. NULL: *err says why. */
static const struct cmdline_row *find(const struct cmdline_row *rows, const char *arg,
                                      const char **value, struct err *err)
{
    const char *token = strcmp(arg, "-h") ? arg : "--help", *equals = strchr(token, '=');
    const size_t size = equals ? (size_t)(equals - token) : strlen(token);
    const struct cmdline_row *row = rows;
    unsigned many;

    *value = equals ? equals + 1 : NULL;
    if (strncmp(token, "--", 2) != 0) {
        while (row->name &&
               (size != 2 || token[0] != '-' || row->name[1] || row->name[0] != token[1]))
            row++;
        if (row->name)
            return row;
        return err_null(err,
                        token[0] == '-' && token[1]
                            ? "there is no option %.*s; --help lists them"
                            : "%.*s: only options are taken here; --help lists them",
                        SHOWN_MAX, token);
    }
    if (size == 2)
        return err_null(err, "%.*s: an option's name is missing", SHOWN_MAX, token);
    row = row_of(rows, token + 2, size - 2, &many);
    return row ? row
               : unknown(rows, token + 2, size < SHOWN_MAX ? (int)size - 2 : SHOWN_MAX, many, err);
}

int cmdline_parse(const struct cmdline_row *rows, int argc, char **argv, cmdline_other_f other,
                  void *into, struct err *err)
{
    for (int i = 1; i < argc; i++) {
        struct err why = { "" };
        const char *value;
        const struct cmdline_row *row = find(rows, argv[i], &value, &why);
        const int others = !row && other ? other(into, argv + i, argc - i, why.text) : 0;

        if (!row && others == 0)
            return err_set(err, "%s", why.text);
        i += others ? others - 1 : 0;
        if (!row)
            continue;
        if (!row->value && value)
            return err_set(err, "%s%s takes no value", dashes(row), row->name);
        if (!row->value) {
            *(bool *)((char *)into + row->at) = true;
            continue;
        }
        if (!value && i + 1 >= argc)
            return err_set(err, "%s%s needs a value: %s%s %s", dashes(row), row->name, dashes(row),
                           row->name, row->value);
        *(const char **)((char *)into + row->at) = value ? value : argv[++i];
    }
    return 0;
}

void cmdline_help(const struct cmdline_row *rows, FILE *to)
{
    char left[64];

    for (const struct cmdline_row *row = rows; row->name; row++) {
        snprintf(left, sizeof left, "%s%s%s%s", dashes(row), row->name, row->value ? " " : "",
                 row->value ? row->value : "");
        fprintf(to, "  %-22s %s\n", left, row->help);
    }
}
