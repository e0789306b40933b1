#include "kernel/arguments.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "config.h"

static const struct row {
    const char *name, *value, *help;
    size_t at; /* in struct arguments */
} rows[] = {
    { "-f", "FILE", "the connection file that Jupyter wrote",
      offsetof(struct arguments, connection_file) },
    { "--python", "PATH", "the Python of home and of the ranks (python3)",
      offsetof(struct arguments, python) },
    { "--python-version", "V", "its version, for clients that ask before home is ready",
      offsetof(struct arguments, python_version) },
};

#define ROWS (sizeof rows / sizeof *rows)

static void print_help(void)
{
    puts(
        "usage: cellspan-kernel [--python PATH] [--python-version V] -f FILE [--Class.trait=VALUE ...]\n\n"
        "The cellspan kernel for Jupyter. Clients start it from a kernelspec; `cellspan install` writes one.\n");
    for (size_t k = 0; k < ROWS; k++)
        printf("  %-18s %-6s %s\n", rows[k].name, rows[k].value, rows[k].help);
    puts(
        "  --Class.trait=VALUE       a setting for IPython in home, as ipykernel takes it: --InteractiveShell.cache_size=100\n"
        "  --help, --version\n\n"
        "Other arguments are ignored, with a warning: clients pass on what they were started with.");
}

static const struct row *row_of(const char *name)
{
    for (size_t k = 0; k < ROWS; k++)
        if (strcmp(rows[k].name, name) == 0)
            return &rows[k];
    return NULL;
}

/* --Class.trait, with or without =VALUE. */
static bool is_trait(const char *text)
{
    const size_t class_size = strncmp(text, "--", 2) == 0 ? strcspn(text + 2, ".=") : 0;

    return class_size > 0 && isupper((unsigned char)text[2]) && text[2 + class_size] == '.';
}

/* How many arguments from v[0] on make up one trait: 2 if its value is an argument of its own; 0 if
 * v[0] is no trait. */
static int trait_size(char *const *v, int n)
{
    if (!is_trait(v[0]))
        return 0;
    return !strchr(v[0], '=') && n > 1 && v[1][0] != '-' ? 2 : 1;
}

int arguments_parse(struct arguments *o, int argc, char **argv, struct err *err)
{
    *o = (struct arguments){ .python = "python3", .python_version = "3", .trait = argv };
    for (int k = 1; k < argc; k++) {
        const struct row *row = row_of(argv[k]);
        const int n = trait_size(argv + k, argc - k);

        if (strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "--version") == 0) {
            argv[k][2] == 'h' ? print_help() : (void)puts("cellspan-kernel " PACKAGE_VERSION);
            return 1;
        }
        if (!row) {
            if (n == 0)
                fprintf(
                    stderr,
                    "cellspan-kernel: %s: unknown argument, ignored (see cellspan-kernel --help)\n",
                    argv[k]);
            for (int i = 0; i < n; i++) /* overwrites only arguments that were read already */
                argv[o->n_traits++] = argv[k + i];
            k += n ? n - 1 : 0;
            continue;
        }
        if (++k == argc)
            return err_set(err, "%s: its value is missing (%s)", row->name, row->value);
        memcpy((char *)o + row->at, &argv[k], sizeof argv[k]);
    }
    if (!o->connection_file)
        return err_set(
            err,
            "no connection file is given: Jupyter passes it as -f FILE (start the kernel from JupyterLab, or "
            "with `jupyter console --kernel cellspan`)");
    return 0;
}

int arguments_hand_on(const struct arguments *o, struct err *err)
{
    json_t *list = json_array();
    char *text;
    int rc = 0;

    for (int k = 0; k < o->n_traits && rc == 0; k++)
        if ((rc = json_array_append_new(list, json_string(o->trait[k]))) < 0)
            err_set(err, "%s: no UTF-8", o->trait[k]);
    if (rc == 0 && o->n_traits > 0) {
        text = json_dumps(list, JSON_COMPACT);
        if (!text || setenv(ARGUMENTS_VARIABLE, text, 1) < 0)
            rc = err_set(err, "out of memory");
        free(text);
    }
    if (rc == 0 && setenv(CONNECTION_VARIABLE, o->connection_file, 1) < 0)
        rc = err_set(err, "out of memory");
    json_decref(list);
    return rc;
}
