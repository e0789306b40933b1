/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/owners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void owners_release(struct owners *o)
{
    for (size_t i = 0; i < o->n_users; i++)
        free(o->user[i].name);
    free(o->user);
    free(o->range);
    *o = (struct owners)OWNERS_INIT;
}

/* Makes room for one more. NULL: memory is out; the list is as it was. */
static void *more(void *list, size_t n, size_t size)
{
    return n & (n - 1) ? list : realloc(list, (n ? 2 * n : 1) * size);
}

/* The number of this text, which ends with it. */
static bool number_of(const char *text, unsigned long *n)
{
    char *end = NULL;

    *n = text ? strtoul(text, &end, 10) : 0;
    return text && *text >= '0' && *text <= '9' && *end == '\0';
}

/* "ann:x:1001:1001:..." */
static int add_user(struct owners *o, char *line)
{
    char *at = line, *name = strsep(&at, ":"), *number;
    struct owner_name *list;
    unsigned long uid;

    (void)strsep(&at, ":");
    number = strsep(&at, ":");
    if (!at || !number_of(number, &uid) || uid != (uid_t)uid)
        return 0;
    if (!(list = more(o->user, o->n_users, sizeof *list)))
        return -1;
    o->user = list;
    if (!(name = strdup(name)))
        return -1;
    o->user[o->n_users++] = (struct owner_name){ name, (uid_t)uid };
    return 0;
}

/* A range may be of a name or of a number. */
static uid_t owner_of_range(const struct owners *o, const char *name, unsigned long first)
{
    unsigned long uid;

    for (size_t i = 0; i < o->n_users; i++)
        if (strcmp(o->user[i].name, name) == 0)
            return o->user[i].uid;
    return number_of(name, &uid) ? (uid_t)uid : (uid_t)first;
}

/* "ann:100000:65536" */
static int add_range(struct owners *o, char *line)
{
    char *at = line, *name = strsep(&at, ":"), *from = strsep(&at, ":"), *count = at;
    struct owner_range *list;
    unsigned long first, n;

    if (!number_of(from, &first) || !number_of(count, &n))
        return 0;
    if (!(list = more(o->range, o->n_ranges, sizeof *list)))
        return -1;
    o->range = list;
    o->range[o->n_ranges++] = (struct owner_range){ first, n, owner_of_range(o, name, first) };
    return 0;
}

static int read_lines(struct owners *o, const char *path, int add(struct owners *, char *))
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    int rc = 0;

    while (file && rc == 0 && getline(&line, &room, file) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        rc = add(o, line);
    }
    free(line);
    if (file)
        fclose(file);
    return rc;
}

static int by_uid(const void *a, const void *b)
{
    const struct owner_name *x = a, *y = b;

    return x->uid < y->uid ? -1 : x->uid > y->uid;
}

int owners_load(struct owners *o, const char *passwd, const char *subuid)
{
    if (read_lines(o, passwd, add_user) < 0 || read_lines(o, subuid, add_range) < 0) {
        owners_release(o);
        return -1;
    }
    if (o->n_users)
        qsort(o->user, o->n_users, sizeof *o->user, by_uid);
    return 0;
}

static bool is_user(const struct owners *o, uid_t uid)
{
    const struct owner_name key = { NULL, uid };

    return o->n_users && bsearch(&key, o->user, o->n_users, sizeof key, by_uid);
}

uid_t owners_of(const struct owners *o, uid_t uid)
{
    for (size_t i = 0; i < o->n_ranges && !is_user(o, uid); i++)
        if (uid >= o->range[i].first && uid - o->range[i].first < o->range[i].n)
            return o->range[i].owner;
    return uid;
}

bool owners_know(const struct owners *o, uid_t uid)
{
    return is_user(o, owners_of(o, uid));
}

/* ---- whose turn it is ---- */

static int by_owner(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;

    if (x->owner != y->owner)
        return x->owner < y->owner ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

static int by_turn(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;

    if (x->foreign != y->foreign)
        return x->foreign ? 1 : -1;
    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    if (x->known != y->known)
        return x->known ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

void turns_fill(struct turn *turn, const struct kernels *k, size_t first)
{
    for (size_t i = 0; i < k->n; i++)
        turn[i] = (struct turn){ .kernel = i,
                                 .owner = k->of[i].owner,
                                 .foreign = k->of[i].foreign,
                                 .known = k->of[i].known };
    if (k->n)
        qsort(turn, k->n, sizeof *turn, by_owner);
    for (size_t i = 1; i < k->n; i++)
        turn[i].before = turn[i - 1].owner == turn[i].owner ? turn[i - 1].before + 1 : 0;
    if (k->n)
        qsort(turn, k->n, sizeof *turn, by_turn);
    for (size_t i = 0; i < k->n; i++)
        turn[i].answer = first + i;
    if (k->n)
        qsort(turn, k->n, sizeof *turn, by_owner);
}
