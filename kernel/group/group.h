/* group.h - who the ranks of one world are, where each stands, and what each knows. Pure: it starts
 * and asks nobody. */
#ifndef KERNEL_GROUP_GROUP_H
#define KERNEL_GROUP_GROUP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ranks.h"
#include "kernel/group/place.h"

#define GROUP_MAX RANKS_MAX /* ranks of one group */

enum rank_state { RANK_NONE, RANK_STARTING, RANK_IDLE, RANK_BUSY, RANK_STOPPING, RANK_DEAD };

struct rank {
    unsigned number;
    uint32_t worker; /* its address on the wire; 0 while there is no process */
    unsigned node;   /* where its process is, or was */
    enum rank_state state;
    long pid;          /* 0 until it is ready */
    uint64_t since_ns; /* when it began the cell that it is in */
    bool is_new;       /* has not run a cell since its process started */
    unsigned lives;    /* processes that this rank has had */
    json_t *known;     /* owned: name -> version of what home shipped to it */
    json_t *unsure;    /* owned: the names that were sent to it since it last answered */
    /* owned: name -> what `known` had, or null, of names that its cell is to assign */
    json_t *before;
    /* owned: names that it has bound by itself since home was last asked what travels */
    json_t *bound;
    /* owned: name -> what it says of its own value, of those that this cell asked it about */
    json_t *said;
    /* owned, n_ran of them, in order: the cells that it ran, as places in the group's list */
    struct stretch *ran;
    unsigned n_ran;
};

struct stretch {
    unsigned first, n;
};

/* A world in which torch.distributed is initialised. Ranks keep its process group while cells run
 * in others. */
struct met {
    unsigned world, port, number;
};

struct group {
    char *name; /* owned */
    char *on;   /* owned: where its ranks live, as "ENGINE:SPEC"; NULL: on this machine */
    /* owned: the place that a cell asked for last and did not get, after which none is chosen for
     * the user */
    char *absent;
    unsigned engine;        /* the number of the engine's run; 0: none is started */
    struct place_want want; /* as its ranks were started last */
    unsigned gpus;          /* that each of them got */
    struct rank *rank;
    unsigned size;  /* ranks that were ever asked for */
    uint32_t *seat; /* owned: rank + 1 by worker, hashed; a hint (see group_worker) */
    unsigned seats; /* a power of two, more than twice the size */
    /* the world that a cell without -n gets; 0: none was started, or all were stopped */
    unsigned asked;
    unsigned world;  /* world size of the last cell; 0: none ran */
    unsigned port;   /* MASTER_PORT of that world; 0: none yet */
    unsigned number; /* of that world: part of the run id */
    unsigned worlds; /* numbers given so far, one at each change to a size that has not met */
    struct met *met; /* owned, n_met of them, of different sizes */
    unsigned n_met;
    unsigned restarts; /* times that its connections were lost: with a rank, or cut by us */
    bool broken;       /* they were, since the last cell */
    json_t *bound;     /* owned: names that any rank has so, of which home was told */
    json_t *cells;     /* owned: the numbers of the cells that ran on it, in order */
};

struct group *group_create(const char *name, struct err *err);
void group_destroy(struct group *g); /* NULL is fine */

/* Grows to n ranks, the new ones RANK_NONE. On failure the group is as it was. */
MUST_USE int group_grow(struct group *g, unsigned n, struct err *err);

/* The ranks below n that have no living process: those that a cell with a world of n must start
 * first. */
MUST_USE int group_missing(const struct group *g, unsigned n, struct ranks *missing);
MUST_USE int group_living(const struct group *g, struct ranks *living);
/* NULL: no living rank has this worker. Takes the time of a walk only when ranks have started since
 * the last. */
struct rank *group_worker(const struct group *g, uint32_t worker);
/* The workers of those of these ranks that have one: the caller's, *n of them. NULL: memory is
 * out. */
MUST_USE uint32_t *group_workers(const struct group *g, const struct ranks *of, size_t *n);

/* A process was asked for: RANK_STARTING, and everything that an earlier one knew is forgotten. */
MUST_USE int rank_start(struct rank *r, uint32_t worker, unsigned node, struct err *err);
/* Its process is gone: RANK_DEAD (RANK_NONE when it was asked to stop). */
void rank_end(struct rank *r);
bool rank_alive(const struct rank *r); /* starting, idle, busy */

/* A rank is gone, or connections were cut: what torch.distributed holds on the others is of no use
 * any more. */
void group_break(struct group *g);
/* torch.distributed is initialised on a rank of the world that is open. On failure that is
 * forgotten. */
MUST_USE int group_meet(struct group *g);
/* Whether it was in this world's last cell, and nothing broke since: the world meets at the port
 * that it has. */
bool group_has_met(const struct group *g, unsigned world);
/* A cell with this world begins. One that has met has its port and number again, and its ranks say
 * anew that it has. */
void group_open_world(struct group *g, unsigned world);

/* Home is another process now: its versions mean nothing any more. */
void group_forget_versions(struct group *g);
/* A cell begins: what ranks said for the one before means nothing any more. */
void group_forget_said(struct group *g);
/* It answered a RUN or FETCH. unbound: it could not take what was sent before. gone: names that
 * came from home, with commas, and are no more. It lacks both. assigned: of group_doubtful()'s
 * names those that its cell has assigned, with commas; of the others it has what it had. */
void rank_answered(struct rank *r, bool unbound, struct slice gone, struct slice assigned);

/* The cells that ran on the group and not on this rank, as "4, 7-9", into out, which is empty;
 * returns how many, or -1. */
unsigned rank_cells(const struct rank *r); /* how many it ran */
int rank_missed(const struct group *g, const struct rank *r, struct buf *out);
/* From here on no cell counts as missed. No rank is alive. */
void group_forget_cells(struct group *g);
/* Cell `count` runs on these ranks. A cell run again is written down once. */
MUST_USE int group_ran(struct group *g, const struct ranks *where, unsigned count);

#endif
