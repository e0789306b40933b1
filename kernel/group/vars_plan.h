/* SPDX-License-Identifier: BSD-3-Clause */
/* vars_plan.h - decides which of home's variables go to which ranks for a cell, and which may not
 * because ranks have changed their own values. Ranks that lack the same names get one vars_bundle,
 * so that it is pickled once. Pure.
 *
 * captured: `names` of CAPTURED: {"names": [[name, version, size, why, since, how, assigned], …],
 * "assigned": [[name, version], …], "tied": [[name, …], …], "deleted": [name, …]}, and others;
 * protocol/README.md explains them. */
#ifndef KERNEL_GROUP_VARS_PLAN_H
#define KERNEL_GROUP_VARS_PLAN_H

#include "kernel/group/group.h"
#include "protocol/span_flags.h"

struct vars_bundle {
    char *names;        /* owned: comma-separated, as PACK takes them */
    struct ranks ranks; /* owned: the ranks that lack exactly these names */
};

struct vars_bundles {
    struct vars_bundle *item;
    size_t n, sent; /* sent: how many of them */
};

#define VARS_BUNDLES_INIT { NULL, 0, 0 }

/* Is the name in this comma-separated list? names may be NULL. */
bool names_hold(const char *names, struct slice name);

/* Plans what is sent to ranks in `to`, from what they have and what they have answered. A malformed
 * `captured` is an error. On failure *out is empty. */
MUST_USE int vars_plan_bundles(const struct group *g, const struct ranks *to,
                               const json_t *captured, struct vars_bundles *out, struct err *err);
/* Plans about which names ranks must be asked first whether they have changed them. Otherwise as
 * vars_plan_bundles(). */
MUST_USE int vars_plan_questions(const struct group *g, const struct ranks *to,
                                 const json_t *captured, struct vars_bundles *out, struct err *err);
void vars_bundles_release(struct vars_bundles *s);

/* a rank's answer begins so if names of its own use the memory of the value it is asked about */
#define ANSWER_HELD "held: "
/* a rank's answer begins so if it has changed only classes of the notebook: those of the value's
 * objects, or the value, which is one. When they come, the rank itself decides about each */
#define ANSWER_CLASS "changed class"
/* likewise, and such a class has arrays, with which other names may share memory */
#define ANSWER_CLASS_ARRAYS ANSWER_CLASS " with arrays"

/* Names that ranks have changed since home sent them, and names that share memory with these. Lists
 * are comma-separated and owned; NULL: empty. */
struct touched {
    char *names;  /* all of them */
    bool tied;    /* some of them share memory */
    char *theirs; /* those that ranks have changed */
    char *anew; /* those that would be sent because they are new there or home has assigned them */
    char *lacked; /* those that these ranks do not have */
    /* true: home has changed them in place; false: they are in the way only because of `anew` */
    bool at_home;
    struct ranks changed; /* owned: the ranks that have changed them */
    struct ranks unsure;  /* owned: the ranks that can't tell */
    struct ranks lack;    /* owned: the ranks that do not have all of `anew` */
    char *why;            /* owned: why one rank can't tell; NULL: none */
};

#define TOUCHED_INIT                                                                               \
    { NULL, false, NULL, NULL, NULL, false, RANKS_INIT, RANKS_INIT, RANKS_INIT, NULL }

/* Finds names that both sides have changed. asked: those that are sent all the same, since
 * --capture names them. Otherwise: those that stop the cell; if home has changed some of these in
 * place, only those. */
MUST_USE int vars_plan_touched(const struct group *g, const struct ranks *to,
                               const json_t *captured, bool asked, struct touched *out,
                               struct err *err);
void touched_release(struct touched *t);

/* ---- ledger.c ---- */
/* Records which versions of home's variables ranks have, and where their own values are newer, as
 * cells are sent, run and end. vars_plan.c reads these records. */

/* Home has bound these names (ended by NULL) to values that it pulled from this rank alone. */
MUST_USE int ledger_pulled(struct group *g, unsigned from, char *const *names);
/* Adds to `said` the rank's answer about its own values: name -> "same", "changed", or another word
 * of protocol/README.md. The rank compares with what home pulled from it; if home has pulled
 * another rank's value since, its own counts as changed. */
MUST_USE int ledger_said(struct rank *r, const json_t *said);
/* For names that home pulled from a rank: ranks with a value of their own keep it, and are not
 * asked about it again until home's value changes. */
MUST_USE int ledger_settled(struct group *g, const struct ranks *to, const json_t *captured);
/* These ranks were sent the captured versions of the vars_bundle's names. */
MUST_USE int ledger_bundle_sent(struct group *g, const struct vars_bundle *s,
                                const json_t *captured);
/* Records the names that the cell assigns on the ranks and that are not sent: the ranks' values
 * will be newer than home's captured versions. Call it when all vars_bundles are sent. */
MUST_USE int ledger_assigned(struct group *g, const struct ranks *to, const json_t *captured);

/* The rank's cell has bound these names (comma-separated). For names in `captured` the rank's value
 * is newer than home's. Appends to *unknown (comma-separated) the names that home must be told of
 * by NEWER. captured may be NULL. */
MUST_USE int ledger_bound(struct group *g, struct rank *r, const json_t *captured,
                          struct slice names, struct buf *unknown);
/* The rank's cell has ended without an error: it has bound the names of `captured` that it
 * certainly assigns, perhaps to the objects that they had, and what it keeps of the names of
 * ledger_delete_unsent() is its own, for it has changed that. captured may be NULL. */
MUST_USE int ledger_ended_well(struct rank *r, const json_t *captured);
/* CAPTURED says which versions home had of the names of NEWER: the ranks' values are newer. */
MUST_USE int ledger_newer(struct group *g, const json_t *captured);

/* The names that the cell assigns and of which a rank in `to` did not have home's version. A rank
 * whose cell fails must say which of them it had assigned by then (rank_answered()). A new array,
 * or NULL if memory is out. */
json_t *ledger_doubtful(const struct group *g, const struct ranks *to);

/* The names that home has deleted and that it had sent to ranks in `to`; these ranks delete them
 * with this cell. A new array, or NULL if memory is out. */
json_t *ledger_deleted(struct group *g, const struct ranks *to, const json_t *captured);

/* Names whose new value home can't send, as `unsent` of CAPTURED has them. Where a rank still has
 * the value that home sent earlier, code that reads the name would compute with that. */

/* Such a name that the cell's own text reads. */
struct unsent_name {
    const char *name;   /* NULL: there is none */
    const char *why;    /* for the user */
    struct ranks ranks; /* owned: those that have an earlier value */
};

#define UNSENT_NAME_INIT { NULL, NULL, RANKS_INIT }

/* Finds the first one. `captured` must outlive *out. */
MUST_USE int ledger_find_unsent(const struct group *g, const struct ranks *to,
                                const json_t *captured, struct unsent_name *out);
/* Those that only functions may read: an object, name -> why, or NULL if memory is out. Ranks
 * delete them with this cell. See ledger_ended_well() about those that a rank has changed. */
json_t *ledger_delete_unsent(const struct group *g, const struct ranks *to, const json_t *captured);

#endif
