/* SPDX-License-Identifier: BSD-3-Clause */
/* settings_folder.h - a folder of its own for a test, with that folder's files as the site's, the
 * user's and the project's settings. */
#ifndef TESTS_UNIT_BASE_SETTINGS_FOLDER_H
#define TESTS_UNIT_BASE_SETTINGS_FOLDER_H

#include "base/settings_files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/tap.h"

#define SITE    "site.toml"
#define USER    "user.toml"
#define PROJECT "cellspan.toml"

static inline void write_bytes(const char *path, const char *text, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, text, n) != (ssize_t)n || close(fd) < 0)
        diag("%s can't be written", path);
}

static inline void write_file(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static inline void remove_all(void)
{
    static const char *const paths[] = { SITE, USER, PROJECT, "target.toml" };
    char variable[SETTING_MAXIMUM];

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (unlink(paths[i]) < 0)
            (void)rmdir(paths[i]);
    for (int i = 0; i < N_SETTINGS; i++) {
        unsetenv(setting_rows[i].name);
        unsetenv(setting_maximum((enum setting)i, variable));
        unsetenv(setting_place_variable((enum setting)i, variable));
    }
    unsetenv("CELLSPAN_FROM_FILES");
}

static inline int set_paths(struct settings_files *f)
{
    return (f->path[FILE_OF_SITE] = strdup(SITE)) && (f->path[FILE_OF_USER] = strdup(USER)) &&
                   (f->path[FILE_OF_PROJECT] = strdup(PROJECT))
               ? 0
               : -1;
}

/* Reads the three, and settles. */
static inline int read_all(struct settings_files *f)
{
    *f = (struct settings_files)SETTINGS_FILES_INIT;
    return set_paths(f) < 0 || settings_files_read(f) < 0 ? -1 : settings_files_settle(f);
}

static inline const char *text_of(const struct settings_files *f)
{
    return f->mistakes.n ? f->mistakes.p : "";
}

/* The three files say this (NULL: there is none); what is wrong is that. */
static inline void says(const char *site, const char *user, const char *project, const char *wrong,
                        const char *what)
{
    struct settings_files f;

    if (site)
        write_file(SITE, site);
    if (user)
        write_file(USER, user);
    if (project)
        write_file(PROJECT, project);
    ok(read_all(&f) == 0, "%s", what);
    is_text(text_of(&f), wrong, "%s", wrong[0] ? "and is named" : "and nothing is wrong");
    settings_files_release(&f);
}

/* Makes the folder, and goes there. template: its name, with XXXXXX at the end. */
static inline bool folder_begin(char *template)
{
    if (!mkdtemp(template) || chdir(template) < 0)
        return false;
    (void)umask(022);
    (void)chmod(template, 0755);
    remove_all();
    return true;
}

#endif
