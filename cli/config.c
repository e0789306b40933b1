/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c - `cellspan config`: what each setting is here, and where that comes from (declared in
 * private.h). */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/settings_files.h"
#include "cli/private.h"

struct config_options {
    bool help;
};

const struct cmdline_row config_rows[] = {
    { "help", NULL, "this text", offsetof(struct config_options, help) },
    { NULL, NULL, NULL, 0 },
};

/* "FILE:LINE" of what a file states. */
static int add_place(struct buf *out, const struct settings_files *f, const struct file_value *v)
{
    return buf_addf(out, "%s:%d", f->path[v->file], v->line);
}

/* Where the value comes from that counts, or would without the site's maximum. */
static int add_origin(struct buf *out, const struct settings_files *f, enum setting which)
{
    switch (f->now[which].origin) {
    case ORIGIN_ENVIRONMENT:
        return buf_addf(out, "%s in the environment", setting_rows[which].name);
    case ORIGIN_FILE:
        return add_place(out, f, &f->value[which]);
    case ORIGIN_DEFAULT:
        break;
    }
    return buf_add_text(out, "default");
}

static int add_setting(struct buf *out, const struct settings_files *f, enum setting which)
{
    const struct setting_now *now = &f->now[which];
    const char *const asked = now->asked ? now->asked : setting_standard(which);
    char key[SETTING_KEY];

    if (buf_addf(out, "%-18s  %-16s  ", setting_key(which, key),
                 now->over ? f->most[which].text : asked) < 0)
        return -1;
    if (now->over && (buf_add_text(out, "the maximum of ") < 0 ||
                      add_place(out, f, &f->most[which]) < 0 || buf_addf(out, "; %s, ", asked) < 0))
        return -1;
    if (add_origin(out, f, which) < 0 ||
        (now->larger && buf_addf(out, ", the smallest; not %s", now->larger) < 0))
        return -1;
    return buf_add_text(out, "\n");
}

static int add_files(struct buf *out, const struct settings_files *f)
{
    static const char *const whose[] = { [FILE_OF_SITE] = "the site's",
                                         [FILE_OF_USER] = "the user's",
                                         [FILE_OF_PROJECT] = "the project's" };

    if (buf_add_text(out, "\nThe environment counts first, then these files:\n") < 0)
        return -1;
    for (int i = N_SETTINGS_FILES - 1; i >= 0; i--)
        if (f->path[i] && buf_addf(out, "%-13s  %s%s\n", whose[i], f->path[i],
                                   f->there[i] ? "" : " (there is none)") < 0)
            return -1;
    return 0;
}

static int show(const struct settings_files *f, struct err *err)
{
    struct buf out = BUF_INIT;
    int rc = buf_addf(&out, "%-18s  %-16s  %s\n", "setting", "value", "from");

    for (int i = 0; rc == 0 && i < N_SETTINGS; i++)
        rc = add_setting(&out, f, (enum setting)i);
    if (rc < 0 || add_files(&out, f) < 0)
        rc = err_set(err, "out of memory");
    else if (fputs(out.p, stdout) < 0 || fflush(stdout))
        rc = err_set(err, "the output can't be written: %s", strerror(errno));
    buf_release(&out);
    return rc;
}

static int run(struct err *err)
{
    struct settings_files files = SETTINGS_FILES_INIT;
    int rc;

    if (settings_files_load(&files) < 0)
        rc = err_set(err, "out of memory");
    else
        rc = show(&files, err);
    if (rc == 0 && files.mistakes.n) {
        fputs(files.mistakes.p, stderr);
        rc = -1;
    }
    settings_files_release(&files);
    return rc;
}

int command_config(int argc, char **argv)
{
    struct config_options o = { false };
    struct err err = { "" };
    int rc = 2;

    if (cmdline_parse(config_rows, argc, argv, NULL, &o, &err) == 0) {
        if (o.help) {
            puts(
                "usage: cellspan config\n\n"
                "Shows what each setting is for a notebook in this folder, and where that comes from: the environment, a\n"
                "file and its line, or the default. The exit status is 1 if a file, or a variable, is wrong.\n");
            cmdline_help(config_rows, stdout);
            return 0;
        }
        rc = run(&err) < 0;
    }
    if (err.text[0])
        fprintf(stderr, "cellspan config: %s\n", err.text);
    return rc;
}
