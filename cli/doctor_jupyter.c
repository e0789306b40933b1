/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor_jupyter.c - which kernelspecs of cellspan's Jupyter finds, and which one wins (declared in
 * doctor.h). */
#include "cli/doctor.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/settings_files.h"
#include "cli/jupyter_path.h"

/* The program and the Python that a kernelspec starts; owned by the caller. Not ours: program is
 * NULL. */
struct spec_start {
    char *program, *python;
};

/* What Jupyter makes of a word of the kernelspec in this file; owned by the caller. */
static char *placed(const char *word, const char *file)
{
    static const char folder[] = "{resource_dir}";
    const size_t n = sizeof folder - 1;
    struct buf path = BUF_INIT;

    if (strncmp(word, folder, n) != 0)
        return strdup(word);
    if (buf_addf(&path, "%.*s%s", (int)(path_name(file) - file - 1), file, word + n) < 0) {
        buf_release(&path);
        return NULL;
    }
    return buf_take(&path);
}

static struct spec_start start_of(const char *file)
{
    json_t *spec = json_load_file(file, 0, NULL), *argv = json_object_get(spec, "argv");
    const char *program = json_string_value(json_array_get(argv, 0)), *python = NULL;
    struct spec_start s = { NULL, NULL };

    for (size_t i = 1; i + 1 < json_array_size(argv); i++) {
        const char *word = json_string_value(json_array_get(argv, i));

        if (word && strcmp(word, "--python") == 0)
            python = json_string_value(json_array_get(argv, i + 1));
    }
    if (program && strcmp(path_name(program), "cellspan-kernel") == 0) {
        s.program = placed(program, file);
        s.python = python ? placed(python, file) : NULL;
    }
    json_decref(spec);
    return s;
}

static void check_start(struct doctor *d, const char *name, const char *file,
                        const struct spec_start *s)
{
    if (strchr(s->program, '/') && access(s->program, X_OK) < 0)
        finding_say(d, BAD, "kernelspec", "cellspan install writes it again, or remove the folder",
                    "%s starts %s, which is not there (%s)", name, s->program, file);
    else if (s->python && strchr(s->python, '/') && access(s->python, X_OK) < 0)
        finding_say(d, BAD, "kernelspec", "cellspan install --python PATH writes it again",
                    "%s runs %s, which is not there (%s)", name, s->python, file);
    else
        finding_say(d, FINE, "kernelspec", NULL, "%s: %s%s%s", name, file,
                    s->python ? ", runs " : "", s->python ? s->python : "");
}

/* One kernels/NAME of a data folder. How many it is: 0 or 1. */
static unsigned check_spec(struct doctor *d, const struct jupyter_path *p, const char *dir,
                           const char *name)
{
    struct buf file = BUF_INIT;
    struct spec_start s = { NULL, NULL };
    char *wins = NULL;

    if (buf_addf(&file, "%s/kernels/%s/kernel.json", dir, name) == 0)
        s = start_of(file.p);
    if (s.program && (wins = jupyter_path_spec(p, name)) && strcmp(wins, file.p) != 0)
        finding_say(d, NOTE, "kernelspec",
                    "remove one, or give one another name: cellspan install --name",
                    "%s: %s is not used, since %s comes first", name, file.p, wins);
    else if (s.program)
        check_start(d, name, file.p, &s);
    free(wins);
    buf_release(&file);
    free(s.program);
    free(s.python);
    return s.program != NULL;
}

static unsigned check_folder(struct doctor *d, const struct jupyter_path *p, const char *dir)
{
    struct buf path = BUF_INIT;
    DIR *kernels = buf_addf(&path, "%s/kernels", dir) == 0 ? opendir(path.p) : NULL;
    struct dirent *entry;
    unsigned n = 0;

    while (kernels && (entry = readdir(kernels)))
        if (entry->d_name[0] != '.')
            n += check_spec(d, p, dir, entry->d_name);
    if (kernels)
        closedir(kernels);
    buf_release(&path);
    return n;
}

static void check_settings(struct doctor *d)
{
    struct settings_files files = SETTINGS_FILES_INIT;
    struct slice rest, line;
    unsigned n = 0;

    if (settings_files_load(&files) < 0)
        finding_say(d, BAD, "settings", NULL, "out of memory");
    for (rest = buf_slice(&files.mistakes); rest.n;) {
        line = slice_line(&rest);
        finding_say(d, BAD, "setting", "cellspan config lists them", "%.*s", SLICE_ARG(line));
    }
    for (int i = 0; i < N_SETTINGS_FILES; i++)
        n += files.there[i];
    if (!files.mistakes.n)
        finding_say(d, FINE, "settings", NULL,
                    "all variables CELLSPAN_* can be read, and %u file%s", n, n == 1 ? "" : "s");
    settings_files_release(&files);
}

void doctor_jupyter(struct doctor *d)
{
    struct jupyter_path path;
    struct err err = { "" };
    unsigned n = 0;

    check_settings(d);
    if (jupyter_path_find(&path, d->found.prefix, &err) < 0) {
        finding_say(d, BAD, "Jupyter", NULL, "%s", err.text);
        return;
    }
    if (path.program)
        finding_say(d, FINE, "Jupyter", NULL, "%s", path.program);
    else
        finding_say(
            d, NOTE, "Jupyter", "activate its environment, so that its folders can be asked for",
            "there is no jupyter on PATH and none beside cellspan: the usual folders are looked into");
    for (unsigned i = 0; i < path.n; i++)
        n += check_folder(d, &path, path.dir[i]);
    if (!n)
        finding_say(d, BAD, "kernelspec", "cellspan install",
                    "Jupyter finds no kernel of cellspan's");
    jupyter_path_release(&path);
}
