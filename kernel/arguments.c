/* SPDX-License-Identifier: BSD-3-Clause */
/* arguments.c - parses the kernel's command line (declared in kernel.h). */
#include "kernel/kernel.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cmdline.h"
#include "base/process.h"
#include "base/runtime.h"
#include "config.h"

static const struct cmdline_row rows[] = {
    { "f", "FILE", "the connection file that Jupyter wrote",
      offsetof(struct arguments, connection_file) },
    { "python", "PATH", "the Python of home and of the ranks (that of the installation)",
      offsetof(struct arguments, python) },
    { "python-version", "V", "its version, for clients that ask before home is ready",
      offsetof(struct arguments, python_version) },
    { "help", NULL, "this text", offsetof(struct arguments, help) },
    { "version", NULL, "print the version", offsetof(struct arguments, version) },
    { NULL, NULL, NULL, 0 },
};

static void print_help(void)
{
    puts(
        "usage: cellspan-kernel [--python PATH] [--python-version V] -f FILE [--Class.trait=VALUE ...]\n\n"
        "The cellspan kernel for Jupyter. Clients start it from a kernelspec; `cellspan install` writes one.\n");
    cmdline_help(rows, stdout);
    puts(
        "  --Class.trait=VALUE    a setting for IPython in home, as ipykernel takes it: --InteractiveShell.cache_size=100\n\n"
        "Other arguments are ignored, with a warning: clients pass on what they were started with.");
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

/* Moves a trait to the front of argv, over arguments that were read before. Ignores all others. */
static int take_other(void *into, char **v, int n, const char *why)
{
    struct arguments *o = into;
    const int size = trait_size(v, n);

    if (size == 0)
        fprintf(stderr, "cellspan-kernel: ignored: %s\n", why);
    for (int i = 0; i < size; i++)
        o->trait[o->n_traits++] = v[i];
    return size ? size : 1;
}

/* Asks the Python of the installation for its own path and its version. */
static int find_python(struct arguments *o, struct err *err)
{
    static const char ask[] =
        "import platform, sys; print(sys.executable, platform.python_version(), "
        "sep='\\0', end='\\0')";
    char *python = runtime_python();
    const char *argv[] = { python ? python : "python3", "-I", "-c", ask, NULL };
    struct process_spec spec = PROCESS_SPEC_INIT;
    struct err why = { "" };
    int rc;

    spec.argv = argv;
    rc = process_output(&spec, 65536, PROCESS_ANSWER_NS, &o->found, &why);
    if (rc < 0)
        (void)err_set(err, "%s; --python PATH names the notebook's Python", why.text);
    if (rc > 0 ||
        (rc == 0 && (!o->found.n || *o->found.p != '/' || !memchr(o->found.p, '\0', o->found.n))))
        rc = err_set(err, "%s does not run: --python PATH names the notebook's Python", argv[0]);
    if (rc == 0) {
        o->python = o->found.p;
        o->python_version = o->found.p + strlen(o->found.p) + 1;
    }
    free(python);
    return rc;
}

void arguments_release(struct arguments *o)
{
    buf_release(&o->found);
}

int arguments_parse(struct arguments *o, int argc, char **argv, struct err *err)
{
    *o = (struct arguments){ .python_version = "3", .trait = argv };
    if (cmdline_parse(rows, argc, argv, take_other, o, err) < 0)
        return -1;
    if (o->help || o->version) {
        o->help ? print_help() : (void)puts("cellspan-kernel " PACKAGE_VERSION);
        return 1;
    }
    if (!o->connection_file)
        return err_set(
            err,
            "no connection file is given: Jupyter passes it as -f FILE (start the kernel from JupyterLab, or "
            "with `jupyter console --kernel cellspan`)");
    return o->python ? 0 : find_python(o, err);
}

int arguments_export(const struct arguments *o, struct err *err)
{
    json_t *list = json_array();
    char *text;
    int rc = 0;

    for (int k = 0; k < o->n_traits && rc == 0; k++)
        if ((rc = json_array_append_new(list, json_string(o->trait[k]))) < 0)
            err_set(err, "%s: write it in UTF-8", o->trait[k]);
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
