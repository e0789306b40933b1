#include "kernel/arguments.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

static const struct row {
    const char *name, *value, *help;
    size_t at; /* in struct arguments */
} rows[] = {
    { "-f", "FILE", "the connection file that Jupyter wrote", offsetof(struct arguments, connection_file) },
    { "--python", "PATH", "the Python of home and of the ranks (python3)", offsetof(struct arguments, python) },
    { "--python-version", "V", "its version, for clients that ask before home is ready",
      offsetof(struct arguments, python_version) },
};

#define ROWS (sizeof rows / sizeof *rows)

static void print_help(void)
{
    puts("usage: cellspan-kernel [--python PATH] [--python-version V] -f FILE\n\n"
         "The cellspan kernel for Jupyter. Clients start it from a kernelspec; `cellspan install` writes one.\n");
    for (size_t k = 0; k < ROWS; k++)
        printf("  %-18s %-6s %s\n", rows[k].name, rows[k].value, rows[k].help);
    puts("  --help, --version");
}

static const struct row *row_of(const char *name)
{
    for (size_t k = 0; k < ROWS; k++)
        if (strcmp(rows[k].name, name) == 0)
            return &rows[k];
    return NULL;
}

int arguments_parse(struct arguments *o, int argc, char **argv, struct err *err)
{
    *o = (struct arguments){ .python = "python3", .python_version = "3" };
    for (int k = 1; k < argc; k++) {
        const struct row *row = row_of(argv[k]);

        if (strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "--version") == 0) {
            argv[k][2] == 'h' ? print_help() : (void)puts("cellspan-kernel " PACKAGE_VERSION);
            return 1;
        }
        if (!row)
            return err_set(err, "%s: unknown argument (see cellspan-kernel --help)", argv[k]);
        if (++k == argc)
            return err_set(err, "%s: its value is missing (%s)", row->name, row->value);
        memcpy((char *)o + row->at, &argv[k], sizeof argv[k]);
    }
    if (!o->connection_file)
        return err_set(
            err, "no connection file is given: Jupyter passes it as -f FILE (start the kernel from JupyterLab, or "
                 "with `jupyter console --kernel cellspan`)");
    return 0;
}
