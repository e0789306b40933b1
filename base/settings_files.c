/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/settings_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/suggest.h"
#include "base/trusted_file.h"
#include "base/utf8.h"
#include "vendor/tomlc17/tomlc17.h"

#define SITE    "/etc/cellspan.toml"
#define NAME    "cellspan.toml"
#define MAXIMUM "maximum"
/* Lines NAME=VALUE: what comes from files, for a program below that reads its own. */
#define FROM_FILES "CELLSPAN_FROM_FILES"

/* ---- where they are ---- */

static char *join(const char *folder, const char *name)
{
    struct buf path = BUF_INIT;

    if (buf_addf(&path, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name) < 0) {
        buf_release(&path);
        return NULL;
    }
    return path.p;
}

static int find_user(char **path)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (config && *config == '/')
        *path = join(config, "cellspan/" NAME);
    else if (home && *home == '/')
        *path = join(home, ".config/cellspan/" NAME);
    else
        return 0;
    return *path ? 0 : -1;
}

static bool has(const char *folder, const char *name)
{
    char *path = join(folder, name);
    struct stat at;
    const bool there = path && lstat(path, &at) == 0;

    free(path);
    return there;
}

/* Cuts the last folder off. false: it is the root. */
static bool go_up(char *folder)
{
    char *slash = strrchr(folder, '/');

    if (!slash || !folder[1])
        return false;
    slash[slash == folder] = '\0';
    return true;
}

/* here: the current folder; at: a copy of it, which is cut. */
static int find_above(const char *here, char *at, char **path)
{
    char *nearest = NULL;

    do {
        if (!nearest && has(at, NAME) && !(nearest = join(at, NAME)))
            return -1;
    } while (!has(at, ".git") && go_up(at));
    if (nearest && has(at, ".git")) {
        *path = nearest;
        return 0;
    }
    free(nearest);
    return (*path = join(here, NAME)) ? 0 : -1;
}

static int find_project(struct settings_files *f)
{
    char *here = getcwd(NULL, 0), *at = here ? strdup(here) : NULL, *path = NULL;
    int rc = 0;

    if (at && *here == '/') /* not one that was removed */
        rc = find_above(here, at, &path);
    free(at);
    free(here);
    for (int i = 0; path && i < FILE_OF_PROJECT; i++)
        if (f->path[i] && strcmp(f->path[i], path) == 0) {
            free(path);
            path = NULL;
        }
    f->path[FILE_OF_PROJECT] = path;
    return rc;
}

int settings_files_find(struct settings_files *f)
{
    if (!(f->path[FILE_OF_SITE] = strdup(SITE)) || find_user(&f->path[FILE_OF_USER]) < 0)
        return -1;
    return find_project(f);
}

/* ---- what they say ---- */

/* One file while it is read. */
struct settings_reading {
    struct settings_files *f;
    enum settings_file file;
    bool maxima; /* the table of maxima is read */
};

#define SHOWN 81u

/* For a line of text: cut, and without control characters. Returns out. */
static const char *shown(char out[static SHOWN], const char *text)
{
    const size_t n = utf8_cut(slice_text(text), SHOWN - 1);

    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
    out[n] = '\0';
    return out;
}

/* Begins a line of the mistakes. */
static int begin_mistake(const struct settings_reading *r, int line, const char *key)
{
    char name[SHOWN];

    return buf_addf(&r->f->mistakes, "%s:%d: %s%s", r->f->path[r->file], line,
                    r->maxima ? MAXIMUM "." : "", shown(name, key));
}

static int mistake(const struct settings_reading *r, int line, const char *key, const char *why)
{
    return begin_mistake(r, line, key) < 0 ? -1 : buf_addf(&r->f->mistakes, ": %s\n", why);
}

static int unknown(const struct settings_reading *r, int line, const char *key)
{
    char keys[N_SETTINGS + 1][SETTING_KEY];
    const char *known[N_SETTINGS + 1], *near;
    size_t n = 0;

    for (; n < N_SETTINGS; n++)
        known[n] = setting_key((enum setting)n, keys[n]);
    if (!r->maxima)
        known[n++] = MAXIMUM;
    near = suggest_nearest(text_begins(key, "CELLSPAN_") ? key + strlen("CELLSPAN_") : key, known,
                           n);
    if (begin_mistake(r, line, key) < 0)
        return -1;
    return near ? buf_addf(&r->f->mistakes, ": there is no such setting; did you mean %s?\n", near)
                : buf_add_text(&r->f->mistakes,
                               ": there is no such setting; `cellspan config` lists them\n");
}

/* The value as the environment would have it; "": it is of no type that a setting has. */
static const char *value_text(const toml_datum_t *d, char out[static 64])
{
    if (d->type == TOML_STRING)
        return d->u.str.ptr;
    out[0] = '\0';
    if (d->type == TOML_INT64)
        snprintf(out, 64, "%lld", (long long)d->u.int64);
    else if (d->type == TOML_FP64)
        snprintf(out, 64, "%.9g", d->u.fp64);
    return out;
}

static const char *type_name(const toml_datum_t *d)
{
    switch (d->type) {
    case TOML_STRING:
        return "a text";
    case TOML_INT64:
    case TOML_FP64:
        return "a number";
    case TOML_BOOLEAN:
        return d->u.boolean ? "true" : "false";
    case TOML_ARRAY:
        return "an array";
    case TOML_TABLE:
        return "a table";
    default:
        return "a date or a time";
    }
}

/* Is it a text of one line, or, where a setting may be one, a number? */
static bool has_type(enum setting which, const toml_datum_t *d)
{
    if (d->type == TOML_INT64 || d->type == TOML_FP64)
        return setting_rows[which].kind != SETTING_TEXT &&
               setting_rows[which].kind != SETTING_NAMES;
    return d->type == TOML_STRING && strlen(d->u.str.ptr) == (size_t)d->u.str.len &&
           !strpbrk(d->u.str.ptr, "\r\n");
}

static int wrong_value(const struct settings_reading *r, enum setting which, const toml_datum_t *d,
                       const char *key, const char *text)
{
    struct buf *out = &r->f->mistakes;
    const bool one_line = d->type != TOML_STRING || has_type(which, d);
    char value[SHOWN];
    int rc = begin_mistake(r, d->lineno, key);

    if (rc == 0 && *text && one_line)
        rc = buf_addf(out, d->type == TOML_STRING ? " = \"%s\": " : " = %s: ", shown(value, text));
    else if (rc == 0)
        rc = buf_addf(out, ": it is %s; ", one_line ? type_name(d) : "a text of several lines");
    if (rc == 0 && setting_rows[which].kind == SETTING_TEXT)
        return buf_add_text(out, "a text of one line, in quotes, is wanted\n");
    return rc < 0 || setting_wanted(which, out) < 0 ? -1 : buf_add_text(out, "\n");
}

/* Only what every user of the repository may be told without being asked. */
static int refuse(const struct settings_reading *r, enum setting which, int line, const char *key)
{
    if (begin_mistake(r, line, key) < 0)
        return -1;
    return buf_addf(&r->f->mistakes,
                    ": a project's file may not set what runs something or reaches something; "
                    "set it in your own file (%s), or as %s in the environment\n",
                    r->f->path[FILE_OF_USER] ? r->f->path[FILE_OF_USER]
                                             : "~/.config/cellspan/" NAME,
                    setting_rows[which].name);
}

static int keep(struct file_value *v, const struct settings_reading *r, const char *text, int line)
{
    char *copy = strdup(text);

    if (!copy)
        return -1;
    free(v->text);
    *v = (struct file_value){ .text = copy, .file = r->file, .line = line };
    return 0;
}

/* One more value that does not count, since a smaller one does. */
static int add_larger(struct setting_now *now, const char *text, const char *place, int line)
{
    struct buf all = BUF_INIT;
    int rc = now->larger ? buf_addf(&all, "%s; ", now->larger) : 0;

    if (rc == 0)
        rc = line ? buf_addf(&all, "%s, %s:%d", text, place, line)
                  : buf_addf(&all, "%s, %s in the environment", text, place);
    if (rc < 0) {
        buf_release(&all);
        return -1;
    }
    free(now->larger);
    now->larger = buf_take(&all);
    return 0;
}

/* Of those files the smallest value counts. */
static int keep_smallest(const struct settings_reading *r, enum setting which, const char *text,
                         int line)
{
    struct file_value *v = &r->f->value[which];
    struct setting_now *now = &r->f->now[which];

    if (v->text && setting_exceeds(which, text, v->text))
        return add_larger(now, text, r->f->path[r->file], line);
    if (v->text && setting_exceeds(which, v->text, text) &&
        add_larger(now, v->text, r->f->path[v->file], v->line) < 0)
        return -1;
    return keep(v, r, text, line);
}

static int read_setting(const struct settings_reading *r, enum setting which, const char *key,
                        const toml_datum_t *d)
{
    char number[64];
    const char *text = value_text(d, number);

    if (r->file == FILE_OF_PROJECT && !setting_rows[which].project)
        return refuse(r, which, d->lineno, key);
    if (r->maxima && !setting_has_order(which))
        return mistake(
            r, d->lineno, key,
            "only durations, sizes, gpu_idle and numbers of ranks or GPUs have a maximum");
    if (!has_type(which, d) || !*text || setting_check(which, text) < 0)
        return wrong_value(r, which, d, key, text);
    if (!r->maxima && setting_rows[which].smallest)
        return keep_smallest(r, which, text, d->lineno);
    return keep(r->maxima ? &r->f->most[which] : &r->f->value[which], r, text, d->lineno);
}

static int read_table(const struct settings_reading *r, const toml_datum_t *table);

static int read_maxima(const struct settings_reading *r, const toml_datum_t *d)
{
    const struct settings_reading inner = { r->f, r->file, true };

    if (r->file != FILE_OF_SITE)
        return mistake(r, d->lineno, MAXIMUM, "only " SITE " states maxima");
    if (d->type != TOML_TABLE)
        return mistake(r, d->lineno, MAXIMUM, "a table is wanted: [" MAXIMUM "]");
    return read_table(&inner, d);
}

static int read_key(const struct settings_reading *r, struct slice key, const toml_datum_t *d)
{
    char name[SETTING_KEY];

    if (!r->maxima && slice_is(key, MAXIMUM))
        return read_maxima(r, d);
    for (int i = 0; i < N_SETTINGS; i++)
        if (slice_is(key, setting_key((enum setting)i, name)))
            return read_setting(r, (enum setting)i, name, d);
    return unknown(r, d->lineno, key.p);
}

static int read_table(const struct settings_reading *r, const toml_datum_t *table)
{
    for (int i = 0; i < table->u.tab.size; i++) {
        const struct slice key = slice_of(table->u.tab.key[i], (size_t)table->u.tab.len[i]);

        if (read_key(r, key, &table->u.tab.value[i]) < 0)
            return -1;
    }
    return 0;
}

static int refuse_file(const struct settings_reading *r, const char *why)
{
    return buf_addf(&r->f->mistakes, "%s: %s\n", r->f->path[r->file], why);
}

/* The parser writes "(line 7) why". */
static int refuse_toml(const struct settings_reading *r, const char *why)
{
    unsigned line;
    int n = 0;

    if (sscanf(why, "(line %u) %n", &line, &n) == 1 && n > 0)
        return buf_addf(&r->f->mistakes, "%s:%u: it is not TOML: %s; nothing of the file is used\n",
                        r->f->path[r->file], line, why + n);
    return buf_addf(&r->f->mistakes, "%s: %s; nothing of the file is used\n", r->f->path[r->file],
                    why);
}

static int read_text(const struct settings_reading *r, const struct buf *text)
{
    toml_result_t toml = toml_parse(text->p ? text->p : "", (int)text->n);
    const int rc = toml.ok ? read_table(r, &toml.toptab) : refuse_toml(r, toml.errmsg);

    toml_free(toml);
    return rc;
}

static int read_file(struct settings_files *f, enum settings_file file)
{
    static const enum trusted_file_of whose[] = { [FILE_OF_SITE] = TRUSTED_FILE_OF_SITE,
                                                  [FILE_OF_USER] = TRUSTED_FILE_OF_USER,
                                                  [FILE_OF_PROJECT] = TRUSTED_FILE_OF_PROJECT };
    const struct settings_reading r = { f, file, false };
    struct buf text = BUF_INIT;
    struct err err = { "" };
    const int got = f->path[file] ? trusted_file_read(f->path[file], whose[file], &text, &err) : 0;
    int rc = 0;

    f->there[file] = got != 0;
    if (got < 0)
        rc = refuse_file(&r, err.text);
    else if (got > 0)
        rc = read_text(&r, &text);
    buf_release(&text);
    return rc;
}

int settings_files_read(struct settings_files *f)
{
    for (int i = 0; i < N_SETTINGS_FILES; i++)
        if (read_file(f, (enum settings_file)i) < 0)
            return -1;
    return 0;
}

/* ---- what counts ---- */

/* The environment's invalid value gives way to the file's. */
static int mistaken(struct settings_files *f, enum setting which, const char *text)
{
    const struct file_value *v = &f->value[which];

    if (buf_addf(&f->mistakes, "%s=%.80s: ", setting_rows[which].name, text) < 0 ||
        setting_wanted(which, &f->mistakes) < 0)
        return -1;
    return buf_addf(&f->mistakes, "; %s of %s:%d is used\n", v->text, f->path[v->file], v->line);
}

/* *text is the environment's: NULL afterwards if a file's is smaller. */
static int choose_smallest(struct settings_files *f, enum setting which, const char **text)
{
    const struct file_value *v = &f->value[which];
    struct setting_now *now = &f->now[which];
    const char *const its = *text;

    if (setting_exceeds(which, its, v->text)) {
        *text = NULL;
        return add_larger(now, its, setting_rows[which].name, 0);
    }
    if (setting_exceeds(which, v->text, its))
        return add_larger(now, v->text, f->path[v->file], v->line);
    return 0;
}

static int choose(struct settings_files *f, enum setting which)
{
    const char *text = setting_text(which), *most = f->most[which].text;
    struct setting_now *now = &f->now[which];

    if (text && f->value[which].text && setting_check(which, text) < 0) {
        if (mistaken(f, which, text) < 0)
            return -1;
        text = NULL;
    }
    if (text && f->value[which].text && setting_rows[which].smallest &&
        choose_smallest(f, which, &text) < 0)
        return -1;
    now->origin = text ? ORIGIN_ENVIRONMENT : f->value[which].text ? ORIGIN_FILE : ORIGIN_DEFAULT;
    if (!text)
        text = f->value[which].text;
    if (text && !(now->asked = strdup(text)))
        return -1;
    now->over = most && setting_exceeds(which, text, most);
    return 0;
}

/* For an error that must say who has set it. */
static int put_place(const struct settings_files *f, enum setting which)
{
    const struct file_value *v = f->now[which].over                    ? &f->most[which]
                                 : f->now[which].origin == ORIGIN_FILE ? &f->value[which]
                                                                       : NULL;
    char variable[SETTING_MAXIMUM];
    struct buf place = BUF_INIT;
    int rc = 0;

    if (!setting_rows[which].smallest || !v)
        return 0;
    if (buf_addf(&place, "%s:%d", f->path[v->file], v->line) < 0 ||
        setenv(setting_place_variable(which, variable), place.p, 1) < 0)
        rc = -1;
    buf_release(&place);
    return rc;
}

/* Puts what files have decided into the environment, and into `told`. */
static int put(const struct settings_files *f, enum setting which, struct buf *told)
{
    const struct setting_now *now = &f->now[which];
    const char *name = setting_rows[which].name, *most = f->most[which].text,
               *text = now->over                    ? most
                       : now->origin == ORIGIN_FILE ? now->asked
                                                    : NULL;
    char variable[SETTING_MAXIMUM];

    if ((most && setenv(setting_maximum(which, variable), most, 1) < 0) || put_place(f, which) < 0)
        return -1;
    if (!text)
        return 0;
    return setenv(name, text, 1) < 0 ? -1 : buf_addf(told, "%s=%s\n", name, text);
}

int settings_files_settle(struct settings_files *f)
{
    struct buf told = BUF_INIT;
    int rc = 0;

    for (int i = 0; rc == 0 && i < N_SETTINGS; i++)
        rc = choose(f, (enum setting)i) < 0 ? -1 : put(f, (enum setting)i, &told);
    if (rc == 0 && told.n)
        rc = setenv(FROM_FILES, told.p, 1);
    buf_release(&told);
    return rc;
}

/* Removes what settings_files_settle() of a program above this one has put there, unless somebody
 * has changed it since. */
static void forget_above(void)
{
    const char *above = getenv(FROM_FILES);
    char *copy = above ? strdup(above) : NULL, variable[SETTING_MAXIMUM];
    struct slice rest = slice_text(copy);

    while (copy && rest.n) {
        const struct slice line = slice_line(&rest);
        char *entry = copy + (line.p - copy), *equals;
        const char *now;

        entry[line.n] = '\0';
        if (!(equals = strchr(entry, '=')))
            continue;
        *equals = '\0';
        if ((now = getenv(entry)) && strcmp(now, equals + 1) == 0)
            (void)unsetenv(entry);
    }
    free(copy);
    (void)unsetenv(FROM_FILES);
    for (int i = 0; i < N_SETTINGS; i++) {
        (void)unsetenv(setting_maximum((enum setting)i, variable));
        (void)unsetenv(setting_place_variable((enum setting)i, variable));
    }
}

int settings_files_load(struct settings_files *f)
{
    forget_above();
    if (settings_files_find(f) < 0 || settings_files_read(f) < 0 || settings_files_settle(f) < 0)
        return -1;
    return settings_mistakes(&f->mistakes);
}

void settings_files_release(struct settings_files *f)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        free(f->value[i].text);
        free(f->most[i].text);
        free(f->now[i].asked);
        free(f->now[i].larger);
    }
    for (int i = 0; i < N_SETTINGS_FILES; i++)
        free(f->path[i]);
    buf_release(&f->mistakes);
    *f = (struct settings_files)SETTINGS_FILES_INIT;
}
