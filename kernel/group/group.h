/* SPDX-License-Identifier: BSD-3-Clause */
/* group.h - the ranks of a group: their states, their nodes, and which of home's variables each one
 * has. Pure: it only records; it starts and asks nobody. */
#ifndef KERNEL_GROUP_GROUP_H
#define KERNEL_GROUP_GROUP_H

#include <jansson.h>

#include "base/rank_set.h"
#include "kernel/group/parking.h"
#include "kernel/group/place.h"

/* What an error says where ranks are asked for and there are none; a format. */
#define NO_RANKS_YET "there are no ranks yet (run a %%%%distribute cell first)"

#define GROUP_MAX RANKS_MAX /* ranks of one group */

enum rank_state { RANK_NONE, RANK_STARTING, RANK_IDLE, RANK_BUSY, RANK_STOPPING, RANK_DEAD };

struct rank {
    unsigned number;
    uint32_t worker; /* its number in messages; 0 while there is no process */
    unsigned node;   /* where its process is, or was */
    enum rank_state state;
    enum parking parking;
    long pid;          /* 0 until it is ready */
    uint64_t since_ns; /* when it began its last cell */
    bool is_new;       /* has not run a cell since its process started */
    bool was_up;       /* an earlier process of it had come up, so its variables are gone */
    unsigned lives;    /* number of processes that this rank has had */
    uint64_t starter;  /* the cell that started its process */
    unsigned env;      /* the number of the env that its last RUN had; 0: none yet */
    char notice[64];   /* the name of what cellspan.on_notice() has there; "": nothing */
    /* owned: name -> the last version of home's that its own value replaces: the one that home
     * sent to it, or the one that home had when its cell bound the name (ledger.c) */
    json_t *known;
    /* owned: name -> version of home's value, pulled from a rank, beside which it keeps its own */
    json_t *keeps;
    /* owned: names that home pulled from this rank alone, until home's value is sent to it; true:
     * home has not pulled another rank's value since */
    json_t *pulled;
    json_t *unsure; /* owned: names sent to it since it last answered */
    json_t *own;    /* owned: names of `known` to which it has bound a value of its own since */
    /* owned: for names that its cell will assign: name -> what `known` had, or null */
    json_t *before;
    json_t *bound; /* owned: names that it has bound by itself since home last answered CAPTURE */
    /* owned: name -> the rank's answer about its own value, if this cell asked for it */
    json_t *said;
    /* owned, n_ran of them, in order: the cells that it ran, as ranges of indices in group.cells */
    struct stretch *ran;
    size_t n_ran, room_ran;
};

struct stretch {
    unsigned first, n;
};

/* A world (size) in which torch.distributed is initialised. Its ranks keep the process group while
 * cells run in worlds of other sizes. */
struct initialised_world {
    unsigned world, port, number;
};

struct group {
    char *name;   /* owned */
    char *on;     /* owned: where its ranks live, as "ENGINE:SPEC"; NULL: on this machine */
    char *image;  /* owned: of the containers in which they run there; NULL: none */
    char *absent; /* owned: the last --on that failed; after that no place is chosen for the user */
    /* owned: home's changes of its environment at the last start of an engine; NULL: none */
    json_t *changes;
    unsigned engine; /* the number of the engine's run; 0: none is started */
    uint64_t up_ns;  /* since when all of its nodes have been up */
    uint64_t again;  /* the cell for which the engine was started again, as machines were lost; 0 */
    struct place_want want; /* the wishes of the last start of ranks */
    unsigned gpus;          /* GPUs that each rank got */
    /* of a notebook's own group, as in struct dispatch_config; set by dispatch.c */
    unsigned quota;
    const char *quota_place;
    struct rank *rank;
    unsigned size;      /* number of ranks ever asked for */
    uint32_t *hash;     /* owned: worker -> rank + 1; may also have workers that have ended */
    unsigned hash_size; /* a power of two, more than twice `size` */
    unsigned hash_used; /* entries */
    /* the world size of a cell without -n; 0: none was started, or all were stopped. start_ranks.c
     * sets it, prepare.c, terminate_ranks.c and engine_of_cell.c clear it */
    unsigned asked;
    unsigned world; /* world size of the last cell; 0: none ran */
    unsigned port;  /* MASTER_PORT of that world, as start_ranks.c found it free; 0: none yet */
    struct spare_ports {
        unsigned node;
        uint16_t port[16];
        size_t n;
        uint64_t asked_ns; /* they are free for SPARE_NS from then on, as far as anybody knows */
    } spare;
    unsigned number; /* number of that world, part of the run id */
    char *env;       /* owned: the last RUN's env; NULL: none */
    unsigned envs;   /* its number */
    unsigned
        worlds; /* world numbers used so far; one for each change to a size not in `initialised` */
    struct initialised_world *initialised; /* owned, n_initialised of them, of different sizes */
    size_t n_initialised, room_initialised;
    unsigned
        restarts;  /* how often its connections were lost, by a rank's end or because we cut them */
    bool broken;   /* they were lost since the last cell */
    char lost[80]; /* in which cell they were last lost and why, as "cell 3 failed"; or "" */
    json_t *bound; /* owned: names in any rank's `bound` that home was told of by NEWER */
    json_t *cells; /* owned: the numbers of the cells that ran on it, in order */
};

struct group *group_create(const char *name, struct err *err);
void group_destroy(struct group *g); /* NULL is fine */
/* What a RUN of these ranks has as `env`: nothing if each of them had the same one last. */
struct slice group_env(struct group *g, const struct ranks *to, struct slice env);

/* Grows to n ranks; new ones are RANK_NONE. On failure the group is unchanged. */
MUST_USE int group_grow(struct group *g, unsigned n, struct err *err);

/* The ranks below n without a living process, which a cell with a world of n must start first. */
MUST_USE int group_missing(const struct group *g, unsigned n, struct ranks *missing);
MUST_USE int group_living(const struct group *g, struct ranks *living);
/* Are its GPUs also others' to use: those of this machine, or of ssh hosts? Other engines have GPUs
 * of their own, such as those of a job of Slurm. */
bool group_shares_gpus(const struct group *g);
bool group_stops(const struct group *g); /* a rank was told to end, and has not ended yet */
/* The rank with this worker; NULL: no living rank has it. Takes no longer with more ranks. */
struct rank *group_worker(const struct group *g, uint32_t worker);

/* A process is being started: RANK_STARTING. Forgets what an earlier process had. */
void rank_start(struct group *g, unsigned rank, uint32_t worker, unsigned node);
/* Its process is gone: RANK_DEAD (RANK_NONE if it was asked to stop). */
void rank_end(struct rank *r);
/* How many ranks are shown: those of the world, and living ones beyond it. Dead ranks beyond the
 * world are not, nor those of a world that was stopped. */
unsigned group_listed(const struct group *g);
const char *rank_state_text(enum rank_state state); /* for people */
bool rank_alive(const struct rank *r);              /* starting, idle, busy */

/* A rank is gone, or connections were cut: process groups of torch.distributed on the other ranks
 * can't be used any more. */
void group_break(struct group *g);
/* The same, because of a cell: "cell 3 failed". */
void group_break_in(struct group *g, const char *why, unsigned count);
/* Records that torch.distributed is initialised on a rank of the current world. -1: no memory. */
MUST_USE int group_set_initialised(struct group *g);
/* Was torch.distributed initialised in the last cell of this world size, and nothing broke since?
 * Then the world keeps its port. */
bool group_is_initialised(const struct group *g, unsigned world);
/* A cell of this world size begins. If the world is in `initialised`, it keeps its port and number,
 * and leaves that list. It comes back when its ranks report that torch.distributed is initialised
 * again. */
void group_open_world(struct group *g, unsigned world);

/* Home is another process now, so its old versions mean nothing. */
void group_forget_versions(struct group *g);
/* A cell begins: forgets the ranks' answers to the cell before. */
void group_forget_said(struct group *g);
/* The rank answered a RUN or FETCH. unbound: it could not take what was sent since its last answer.
 * gone: comma-separated names that came from home and no longer exist. In both cases it lacks these
 * names. assigned: those of ledger_doubtful()'s names, comma-separated, that its cell has assigned;
 * the others still have their old values. */
void rank_answered(struct rank *r, bool unbound, struct slice gone, struct slice assigned);

unsigned rank_cells(const struct rank *r); /* the number of cells that it ran */
/* Writes the cells that ran on the group but not on this rank, as "4, 7-9", to `out`, which must be
 * empty; without cell `now` (0: with all). Returns how many, or -1. */
int rank_missed(const struct group *g, const struct rank *r, unsigned now, struct buf *out);
/* Forgets all cells and earlier processes, so that nothing counts as missed or gone. No rank may be
 * alive. */
void group_forget_cells(struct group *g);
/* Records that cell `count` runs on these ranks. A cell that runs again is recorded once. */
MUST_USE int group_ran(struct group *g, const struct ranks *where, unsigned count);

#endif
