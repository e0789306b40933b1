/* ship.h - which of the names that a cell reads go to which ranks, and which may not, for ranks
 * have changed theirs. Ranks that lack the same names get one shipment, so that each is packed
 * once. Pure.
 *
 * captured is CAPTURED's names: {"names": [[name, version, size, why, since, how], …], "assigned":
 * [[name, version], …], "tied": [[name, …], …], "deleted": [name, …]}; protocol/README.md tells
 * what they mean. */
#ifndef KERNEL_GROUP_SHIP_H
#define KERNEL_GROUP_SHIP_H

#include "kernel/group/group.h"

/* Why a name is listed: CAPTURED's `how`. */
enum how { HOW_READ, HOW_NAMED, HOW_PUSHED, HOW_SPARE, HOW_PULLED, HOW_TIED, HOW_MAYBE };

struct shipment {
    char *names;        /* owned: comma-separated, as PACK takes them */
    struct ranks ranks; /* owned: those that lack exactly these */
};

struct shipments {
    struct shipment *item;
    size_t n;
};

#define SHIPMENTS_INIT { NULL, 0 }

/* Is the name among these, which have commas between them? names may be NULL. */
bool names_hold(const char *names, const char *name);

/* What goes, by what ranks know and what they have said. Only ranks in `to`. A malformed `captured`
 * is an error. On failure *out is empty. */
MUST_USE int shipments_plan(const struct group *g, const struct ranks *to, const json_t *captured,
                            struct shipments *out, struct err *err);
/* The names that ranks have to be asked about first: did they change theirs? Otherwise as
 * shipments_plan(). */
MUST_USE int shipments_ask(const struct group *g, const struct ranks *to, const json_t *captured,
                           struct shipments *out, struct err *err);
void shipments_release(struct shipments *s);

/* Names of which ranks hold something else than what home once sent, with those that share memory
 * with them. */
/* a rank's answer begins so where names of its own use the memory of what it is asked about */
#define HELD "held: "

struct touched {
    char *names;  /* owned: comma-separated; NULL: there are none */
    bool tied;    /* some of them share memory */
    char *theirs; /* owned: of these the ones that ranks have changed */
    /* owned: of these the ones that go for being new to these ranks, or assigned by home; NULL:
     * none */
    char *anew;
    /* owned: of these the ones that ranks do not have; NULL: there are none */
    char *lacked;
    /* home has changed them in place; else it has not, and what is anew is in the way */
    bool at_home;
    struct ranks changed; /* owned: those that say so */
    struct ranks unsure;  /* owned: those that can't tell */
    struct ranks lack;    /* owned: those that do not have all of `anew` */
    char *why;            /* owned: the reason of one that can't tell; NULL: there are none */
};

#define TOUCHED_INIT                                                                               \
    { NULL, false, NULL, NULL, NULL, false, RANKS_INIT, RANKS_INIT, RANKS_INIT, NULL }

/* asked: those that go nevertheless, for they were named by --capture; else those that are in the
 * way of the cell: of these only those that home has changed in place, where there are such. */
MUST_USE int shipments_touched(const struct group *g, const struct ranks *to,
                               const json_t *captured, bool asked, struct touched *out,
                               struct err *err);
void touched_release(struct touched *t);

#endif
