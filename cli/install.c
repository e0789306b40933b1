/* SPDX-License-Identifier: BSD-3-Clause */
/* install.c - `cellspan install` and `cellspan uninstall` (declared in private.h). */
#include "cli/private.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime.h"
#include "cli/jupyter_path.h"
#include "cli/kernelspec.h"

struct install {
    bool user;
    bool sys_prefix;
    const char *prefix;
    const char *python;
    const char *name;
    const char *display_name;
    bool help;
};

const struct cmdline_row install_rows[] = {
    { "user", NULL, "for this user (default)", offsetof(struct install, user) },
    { "sys-prefix", NULL, "for the chosen Python's environment (its sys.prefix)",
      offsetof(struct install, sys_prefix) },
    { "prefix", "DIR", "below DIR, in DIR/share/jupyter/kernels",
      offsetof(struct install, prefix) },
    { "python", "PATH", "the notebook's Python, 3.9 or newer (default: the active environment's)",
      offsetof(struct install, python) },
    { "name", "NAME", "the kernel's name (cellspan)", offsetof(struct install, name) },
    { "display-name", "TEXT", "what launchers show (Python (cellspan))",
      offsetof(struct install, display_name) },
    { "help", NULL, "this text", offsetof(struct install, help) },
    { NULL, NULL, NULL, 0 },
};

const struct cmdline_row uninstall_rows[] = {
    { "user", NULL, "this user's (default)", offsetof(struct install, user) },
    { "sys-prefix", NULL, "that of the chosen Python's environment (its sys.prefix)",
      offsetof(struct install, sys_prefix) },
    { "prefix", "DIR", "that below DIR, in DIR/share/jupyter/kernels",
      offsetof(struct install, prefix) },
    { "python", "PATH", "whose environment --sys-prefix means (default: the active environment's)",
      offsetof(struct install, python) },
    { "name", "NAME", "the kernel's name (cellspan)", offsetof(struct install, name) },
    { "help", NULL, "this text", offsetof(struct install, help) },
    { NULL, NULL, NULL, 0 },
};

static int check(struct install *o, struct err *err)
{
    if (o->user + o->sys_prefix + (o->prefix != NULL) > 1)
        return err_set(err, "--user, --sys-prefix and --prefix can't be used together");
    if (o->prefix && !*o->prefix)
        return err_set(err, "--prefix needs a value: --prefix DIR");
    if (!o->name)
        o->name = "cellspan";
    if (!o->display_name)
        o->display_name = "Python (cellspan)";
    return kernelspec_check_name(o->name, err);
}

/* Do both kernelspecs start the same? */
static bool same_start(const char *a, const char *b)
{
    json_t *x = json_load_file(a, 0, NULL), *y = json_load_file(b, 0, NULL);
    const bool same = x && y && json_equal(json_object_get(x, "argv"), json_object_get(y, "argv"));

    json_decref(x);
    json_decref(y);
    return same;
}

/* Says which kernelspec of this name Jupyter takes, if it looks into data, but into another folder
 * first, where one starts something else than that in dir. */
static int warn_if_hidden(const char *name, const char *prefix, const char *data, const char *dir,
                          struct err *err)
{
    struct jupyter_path path;
    struct buf written = BUF_INIT;
    char *first;

    if (jupyter_path_find(&path, prefix, err) < 0)
        return -1;
    first = jupyter_path_has(&path, data) ? jupyter_path_spec(&path, name) : NULL;
    if (first && buf_addf(&written, "%s/kernel.json", dir) == 0 && strcmp(first, written.p) != 0 &&
        !same_start(first, written.p))
        fprintf(
            stderr,
            "cellspan install: but %s takes another kernel of that name first: %s\n"
            "Remove that one, install in its place (--sys-prefix or --prefix DIR), or give this one another name (--name NAME)\n",
            path.program ? path.program : "Jupyter", first);
    buf_release(&written);
    free(first);
    jupyter_path_release(&path);
    return 0;
}

/* Writes the spec for an interpreter that was found good. */
static int install_for(const struct install *o, const struct python_interpreter *python,
                       struct err *err)
{
    char *kernel = runtime_find("cellspan-kernel", err);
    const char *prefix = o->sys_prefix ? python->prefix : o->prefix;
    char *data = kernel ? kernelspec_data_dir(prefix, err) : NULL;
    char *dir = data ? kernelspec_dir(prefix, o->name, err) : NULL;
    const struct kernelspec spec = { kernel, python->path, python->version, o->display_name };
    int rc = dir ? kernelspec_write(dir, &spec, err) : -1;

    if (!rc)
        printf("%s is in %s\nits notebooks run %s (Python %s)\n", o->display_name, dir,
               python->path, python->version);
    if (!rc && (rc = fflush(stdout) ? err_set(err, "stdout can't be written: %s", strerror(errno))
                                    : 0) == 0)
        rc = warn_if_hidden(o->name, python->prefix, data, dir, err);
    free(dir);
    free(data);
    free(kernel);
    return rc;
}

/* Removes the spec that install_for() wrote. Only --sys-prefix needs an interpreter. */
static int uninstall_for(const struct install *o, const struct python_interpreter *python,
                         struct err *err)
{
    char *dir = kernelspec_dir(o->sys_prefix ? python->prefix : o->prefix, o->name, err);
    const int rc = dir ? kernelspec_remove(dir, err) : -1;

    if (!rc)
        printf("%s is removed\n", dir);
    free(dir);
    return rc;
}

/* What install and uninstall share: options, help, the interpreter, the error. */
static int command(int argc, char **argv, const struct cmdline_row *rows, const char *usage,
                   bool installs)
{
    struct install o = { 0 };
    struct python_interpreter python = { 0 };
    struct err err = { "" };
    int rc = 2;

    if (cmdline_parse(rows, argc, argv, NULL, &o, &err))
        goto out;
    if (o.help) {
        puts(usage);
        cmdline_help(rows, stdout);
        return 0;
    }
    if (check(&o, &err))
        goto out;
    rc = 1;
    if ((installs || o.sys_prefix) && interpreter_find(&python, o.python, &err))
        goto out;
    rc = (installs ? install_for : uninstall_for)(&o, &python, &err) ? 1 : 0;
    interpreter_release(&python);
out:
    if (rc)
        fprintf(stderr, "cellspan %s: %s\n", argv[0], err.text);
    return rc;
}

int command_install(int argc, char **argv)
{
    static const char usage[] =
        "usage: cellspan install [--user | --sys-prefix | --prefix DIR] [--python PATH] [--name NAME]\n"
        "                        [--display-name TEXT]\n\n"
        "Writes a kernelspec, so that JupyterLab and other clients offer the kernel.\n";

    return command(argc, argv, install_rows, usage, true);
}

int command_uninstall(int argc, char **argv)
{
    static const char usage[] =
        "usage: cellspan uninstall [--user | --sys-prefix | --prefix DIR] [--python PATH] [--name NAME]\n\n"
        "Removes the kernelspec that `cellspan install` wrote with the same options. Notebooks that run go on.\n";

    return command(argc, argv, uninstall_rows, usage, false);
}
