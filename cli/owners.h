/* SPDX-License-Identifier: BSD-3-Clause */
/* owners.h - who counts for a user's number, and in which order kernels are asked. A user may have
 * thousands of numbers, as containers need them (subuid(5)), and could pass for as many users. Only
 * local files are read: what else knows users may be a server that does not answer. */
#ifndef CLI_OWNERS_H
#define CLI_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "cli/kernels.h"

struct owner_name {
    char *name; /* owned */
    uid_t uid;
};

struct owner_range {
    unsigned long first, n; /* the numbers from `first` on */
    uid_t owner;
};

struct owners {
    struct owner_name *user; /* owned, n_users of them: /etc/passwd, sorted by number */
    size_t n_users;
    struct owner_range *range; /* owned, n_ranges of them: /etc/subuid */
    size_t n_ranges;
};

#define OWNERS_INIT { NULL, 0, NULL, 0 }

/* Reads files of these forms. One that is not there is empty. -1: memory is out. */
MUST_USE int owners_load(struct owners *o, const char *passwd, const char *subuid);
void owners_release(struct owners *o);
/* A local user is his own owner, also where a range has his number. A number of a range belongs to
 * who has the range: to its first number, if the file of users does not know him. Any other is its
 * own owner: a server may know it. */
uid_t owners_of(const struct owners *o, uid_t uid);
/* Is the number in the file of users, or that of such a user's range? */
bool owners_know(const struct owners *o, uid_t uid);

/* ---- whose turn it is ---- */

/* The caller's own kernels come first. Then comes the first kernel of each owner before the second
 * of any: who has many holds up nobody but himself. Among those are first the ones of owners that
 * the machine's files know: numbers that only a server knows may be many of one user's. */
struct turn {
    size_t kernel;  /* its index */
    uid_t owner;    /* whose */
    bool foreign;   /* not the caller's */
    bool known;     /* its owner is in the machine's files */
    size_t before;  /* how many of that owner's have their turn before */
    size_t answer;  /* the index of its answer */
    const char *no; /* why it is not asked; NULL: it is */
};

/* Fills k->n turns, sorted by owner, with the answers from the index `first` on. */
void turns_fill(struct turn *turn, const struct kernels *k, size_t first);

#endif
