/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/kernelspec.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "base/process.h"

static const char *home_dir(void)
{
    const char *home = getenv("HOME");
    const struct passwd *user;

    if (home && *home)
        return home;
    user = getpwuid(getuid());
    return user ? user->pw_dir : NULL;
}

/* Jupyter's data folder of this user. */
static int add_user_dir(struct buf *path, struct err *err)
{
    const char *jupyter = getenv("JUPYTER_DATA_DIR"), *home = home_dir();
#ifdef __APPLE__
    const char *xdg = NULL, *below = "Library/Jupyter";
#else
    const char *xdg = getenv("XDG_DATA_HOME"), *below = ".local/share/jupyter";
#endif

    if (jupyter && *jupyter)
        return buf_add_text(path, jupyter);
    if (xdg && *xdg)
        return buf_addf(path, "%s/jupyter", xdg);
    if (!home)
        return err_set(err, "HOME is not set: --prefix DIR says where the kernelspec goes");
    return buf_addf(path, "%s/%s", home, below);
}

char *kernelspec_data_dir(const char *prefix, struct err *err)
{
    struct buf path = BUF_INIT;

    if (prefix ? buf_addf(&path, "%s/share/jupyter", prefix) : add_user_dir(&path, err)) {
        buf_release(&path);
        return err_null(err, "out of memory");
    }
    return buf_take(&path);
}

char *kernelspec_dir(const char *prefix, const char *name, struct err *err)
{
    char *data = kernelspec_data_dir(prefix, err);
    struct buf path = BUF_INIT;
    int rc = data ? buf_addf(&path, "%s/kernels/%s", data, name) : -1;

    free(data);
    if (rc == 0)
        return buf_take(&path);
    buf_release(&path);
    return err_null(err, "out of memory");
}

int kernelspec_check_name(const char *name, struct err *err)
{
    const char *c = name;

    while (isalnum((unsigned char)*c) || (*c && strchr("._-", *c)))
        c++;
    if (*c || c == name || strlen(name) > 200 || !strcmp(name, ".") || !strcmp(name, ".."))
        return err_set(err, "--name %s: a kernel's name has letters, digits, '.', '_' and '-' only",
                       *name ? name : "''");
    return 0;
}

/* mkdir -p */
static int make_dirs(const char *dir, struct err *err)
{
    char *path = strdup(dir);
    int rc = 0;

    if (!path)
        return err_set(err, "out of memory");
    for (char *c = path + 1; !rc && c[-1]; c++) {
        const char was = *c;

        if (was && was != '/')
            continue;
        *c = '\0';
        if (mkdir(path, 0777) && errno != EEXIST)
            rc = err_set(err, "can't make %s: %s%s", path, strerror(errno),
                         errno == EACCES ? " (--user writes to your own folder)" : "");
        *c = was;
    }
    free(path);
    return rc;
}

/* Writes a temporary file and renames it, so that a server sees either the old file or the complete
 * new one. */
static int put_file(const char *dir, const char *name, struct slice content, struct err *err)
{
    struct buf path = BUF_INIT, draft = BUF_INIT;
    int fd = -1, rc = -1;

    if (buf_addf(&path, "%s/%s", dir, name) || buf_addf(&draft, "%s/.%s.XXXXXX", dir, name)) {
        err_set(err, "out of memory");
        goto out;
    }
    fd = mkstemp(draft.p);
    if (fd >= 0)
        rc = fd_write(fd, content) < 0 ? -1 : fchmod(fd, 0644);
    if (fd >= 0 && close(fd))
        rc = -1;
    if (!rc)
        rc = rename(draft.p, path.p);
    if (rc)
        err_set(err, "can't write %s: %s", path.p, strerror(errno));
    if (rc && fd >= 0)
        unlink(draft.p);
out:
    buf_release(&path);
    buf_release(&draft);
    return rc;
}

/* Jupyter's kernel.json. Interrupts are messages, because a signal can't reach a kernel on another
 * machine. */
static char *format_spec(const struct kernelspec *spec)
{
    json_t *root = json_pack("{s:[s,s,s,s,s,s,s], s:s, s:s, s:s, s:s, s:{s:[s], s:b}}", "argv",
                             spec->kernel, "--python", spec->python, "--python-version",
                             spec->version, "-f", "{connection_file}", "display_name",
                             spec->display_name, "language", "python", "interrupt_mode", "message",
                             "kernel_protocol_version", "5.5", "metadata", "supported_encryption",
                             "curve", "debugger", 1);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_ENSURE_ASCII) : NULL;

    json_decref(root);
    return text;
}

/* Whether the spec starts cellspan-kernel. -1: there is none, or it can't be read. */
static int is_ours(const char *path, struct err *err)
{
    json_error_t why;
    json_t *root;
    const char *program;
    int rc;

    if (access(path, F_OK))
        return err_set(
            err,
            "there is no %s; --user, --sys-prefix and --prefix DIR say where to look, --name which kernel",
            path);
    if (!(root = json_load_file(path, 0, &why)))
        return err_set(err, "can't read %s: %s", path, why.text);
    program = json_string_value(json_array_get(json_object_get(root, "argv"), 0));
    rc = program && !strcmp(path_name(program), "cellspan-kernel")
             ? 0
             : err_set(err, "%s is no kernel of cellspan's: it starts %s", path,
                       program ? program : "nothing");
    json_decref(root);
    return rc;
}

/* May the kernelspec in this folder be replaced? */
static int may_write(const char *dir, struct err *err)
{
    struct buf path = BUF_INIT;
    struct err why = { "" };
    int rc = 0;

    if (buf_addf(&path, "%s/kernel.json", dir))
        rc = err_set(err, "out of memory");
    else if (!access(path.p, F_OK) && is_ours(path.p, &why))
        rc = err_set(err, "%s (--name gives cellspan's another name)", why.text);
    buf_release(&path);
    return rc;
}

int kernelspec_write(const char *dir, const struct kernelspec *spec, struct err *err)
{
    char *text = format_spec(spec);
    int rc;

    if (!text)
        return err_set(
            err,
            "the kernelspec can't be written as JSON: a path or the display name is not UTF-8; give others");
    rc = may_write(dir, err) ? -1 : make_dirs(dir, err);
    for (const struct logo *logo = logos; !rc && logo->name; logo++)
        rc = put_file(dir, logo->name, logo->image, err);
    if (!rc)
        /* last: with it the kernel is there */
        rc = put_file(dir, "kernel.json", slice_text(text), err);
    free(text);
    return rc;
}

int kernelspec_remove(const char *dir, struct err *err)
{
    struct buf path = BUF_INIT;
    int rc = buf_addf(&path, "%s/kernel.json", dir) ? err_set(err, "out of memory")
                                                    : is_ours(path.p, err);

    if (!rc && unlink(path.p)) /* first: with it the kernel is gone */
        rc = err_set(err, "can't remove %s: %s", path.p, strerror(errno));
    for (const struct logo *logo = logos; !rc && logo->name; logo++) {
        buf_clear(&path);
        if (buf_addf(&path, "%s/%s", dir, logo->name))
            rc = err_set(err, "out of memory");
        else if (unlink(path.p) && errno != ENOENT)
            rc = err_set(err, "can't remove %s: %s", path.p, strerror(errno));
    }
    if (!rc && rmdir(dir) && errno != ENOTEMPTY && errno != EEXIST)
        rc = err_set(err, "can't remove %s: %s", dir, strerror(errno));
    buf_release(&path);
    return rc;
}
