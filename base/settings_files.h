/* SPDX-License-Identifier: BSD-3-Clause */
/* settings_files.h - the settings that files state (TOML): the site's, the user's, and the
 * project's, of which each later one wins. The kernel reads them once, at its start, and puts what
 * they say into its environment where that says nothing, so that all processes have it, also those
 * of other machines. The site's file may state maxima. docs/settings.md describes them. */
#ifndef BASE_SETTINGS_FILES_H
#define BASE_SETTINGS_FILES_H

#include "base/settings.h"

enum settings_file { FILE_OF_SITE, FILE_OF_USER, FILE_OF_PROJECT, N_SETTINGS_FILES };

struct file_value {
    char *text; /* owned; NULL: no file states it */
    enum settings_file file;
    int line;
};

enum setting_origin { ORIGIN_DEFAULT, ORIGIN_ENVIRONMENT, ORIGIN_FILE };

struct settings_files {
    char *path[N_SETTINGS_FILES]; /* owned; NULL: there is no such place */
    bool there[N_SETTINGS_FILES]; /* it was read, perhaps with mistakes */
    struct file_value value[N_SETTINGS], most[N_SETTINGS];
    struct setting_now {
        enum setting_origin origin;
        char *asked; /* owned: what the origin says; NULL: the default */
        char
            *larger; /* owned: "8, FILE:4; …", what is stated but not the smallest; NULL: nothing */
        bool over;   /* that is above the site's maximum, which is used */
    } now[N_SETTINGS];   /* filled by settings_files_settle() */
    struct buf mistakes; /* a line each: file, line, name, and why it is not used */
};

#define SETTINGS_FILES_INIT { .mistakes = BUF_INIT }

/* Where the files are: /etc/cellspan.toml, cellspan/cellspan.toml in $XDG_CONFIG_HOME or ~/.config,
 * and cellspan.toml in the current folder or the nearest one above it, up to that which has .git;
 * without .git above, only in the current folder. -1: memory is out. */
MUST_USE int settings_files_find(struct settings_files *f);
/* Reads the files at f->path. What is wrong is in f->mistakes. -1: memory is out. */
MUST_USE int settings_files_read(struct settings_files *f);
/* Decides which value counts for each setting, with what the environment says now, and puts it
 * there. A value there that is no valid one is a mistake if a file has one in its place; others are
 * left to settings_mistakes(). -1: memory is out. */
MUST_USE int settings_files_settle(struct settings_files *f);
/* All three, after removing what a program above this one has put into the environment from its
 * files. Then f->mistakes also has what settings_mistakes() says. -1: memory is out; what was read
 * before that counts. */
MUST_USE int settings_files_load(struct settings_files *f);
void settings_files_release(struct settings_files *f);

#endif
