/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.h - the kernels that run on this machine, and questions to one of them. */
#ifndef CLI_KERNELS_H
#define CLI_KERNELS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "kernel/jupyter/connection.h"

/* ---- kernels.c ---- */
struct running_kernel {
    pid_t pid;
    uid_t uid;        /* whose it is */
    uid_t owner;      /* who counts for it (owners.h) */
    bool known;       /* the machine's files know him */
    bool foreign;     /* another user's */
    char *notebook;   /* owned: the notebook's path, or the command of `cellspan run`; never NULL */
    char *file;       /* owned: its connection file; NULL: none was given */
    uint64_t start;   /* when it was started: in ticks since the machine's */
    uint64_t seconds; /* since it was started */
    bool job;         /* it belongs to a `cellspan run` */
    bool served;      /* a Jupyter server has started it */
};

#define KERNELS_OWNER_MAX 64u   /* kernels of another user that are listed: the oldest ones */
#define KERNELS_NAME_MAX  1024u /* bytes of another user's notebook that are kept: the last ones */

/* Kernels of another user that are not listed. */
struct kernels_more {
    uid_t owner;
    size_t n;
};

struct kernels {
    struct running_kernel *of; /* owned, n of them, the oldest first */
    size_t n, room;
    struct kernels_more *more; /* owned, n_more of them */
    size_t n_more;
};

#define KERNELS_INIT { NULL, 0, 0, NULL, 0 }

/* Fills *k from /proc. Programs that are no kernel of cellspan's are left out, and without `all`
 * processes of other users. Others can start any number of programs with long names: what is kept
 * of them has limits. -1: there is no /proc, or memory is out. */
MUST_USE int kernels_find(struct kernels *k, bool all, struct err *err);
void kernels_release(struct kernels *k);
/* The kernel that a word means: a pid, the notebook's path, or its file name, if only one kernel
 * has it. NULL: *err says what there is. Borrowed from k. */
const struct running_kernel *kernels_named(const struct kernels *k, const char *word,
                                           struct err *err);
/* Has it not ended yet? (One that has may wait for its parent, or another process has its pid.) */
bool kernel_runs(const struct running_kernel *k);

/* Is it root's, and in namespaces other than ours, such as those of a container? Then its files are
 * not those that we see by the same names, and root must not open them. */
bool kernel_is_elsewhere(const struct running_kernel *k);

/* ---- kernel_overview.c ---- */
/* What a kernel says of what it does, with all that can be seen of it from outside. */
struct overview {
    char *name;      /* owned: the notebook's, as valid UTF-8 */
    json_t *content; /* owned; "error": it did not answer; "asked": false: it was not asked */
};

/* Asks all of them at once, each by a process of its owner; and, unless it is NULL, what the
 * machine says of its GPUs (cards.h), for json_decref(). What is kept of another user's answers has
 * a limit. The n overviews, for overviews_free(). NULL: memory is out. */
struct overview *overviews_ask(const struct kernels *k, json_t **cards, struct err *err);
void overviews_free(struct overview *of, size_t n); /* NULL is fine */

/* ---- kernel_question.c ---- */
/* Both refuse a kernel that is elsewhere, a connection file that is no regular file, and a name in
 * place of an address in the file of another user. */
/* Sends a request on the control channel and waits for the reply of this type, at most so long.
 * The content of the reply, for the caller to json_decref. NULL: *err says why there is none. */
json_t *kernel_question(const struct running_kernel *k, const char *type, const char *content,
                        const char *reply, uint64_t limit_ns, struct err *err);
/* Runs a magic in the kernel and prints what it shows. silence_ns: it fails if the kernel says
 * nothing for so long. Returns an exit status: 0 it did, 1 it failed; the err says why, unless the
 * kernel has printed it. */
int kernel_show(const struct running_kernel *k, const char *line, uint64_t silence_ns,
                struct err *err);

#endif
