/* install.c - `cellspan install` and `cellspan uninstall` (declared in parts.h). */
#include "cli/parts.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/runtime.h"
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

/* Writes the spec for an interpreter that was found good. */
static int install_for(const struct install *o, const struct python_interpreter *python,
                       struct err *err)
{
    char *kernel = runtime_find("cellspan-kernel", err);
    char *dir = kernel ? kernelspec_dir(o->sys_prefix ? python->prefix : o->prefix, o->name, err)
                       : NULL;
    const struct kernelspec spec = { kernel, python->path, python->version, o->display_name };
    int rc = dir ? kernelspec_write(dir, &spec, err) : -1;

    if (!rc)
        printf("%s is in %s\nits notebooks run %s (Python %s)\n", o->display_name, dir,
               python->path, python->version);
    free(dir);
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
