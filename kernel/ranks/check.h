/* check.h - %ranks check: what check.c asks of the ranks and verdict.c makes of their answers. */
#ifndef KERNEL_RANKS_CHECK_H
#define KERNEL_RANKS_CHECK_H

#include "base/links.h"
#include "kernel/ranks/ranks.h"

#define CHECK_RANKS_MAX 64u /* of more, only one rank of each node is in the pairs */

enum check_step { CHECK_FACTS, CHECK_LISTEN, CHECK_CONNECT, CHECK_PAIRS, CHECK_WORLD, CHECK_CLOSE };

struct check_rank {
    unsigned rank, node;
    const char *node_name; /* borrowed from the notebook's doors: copied, owned */
    json_t *facts;         /* owned, or NULL */
    double offset_s;       /* its clock less the kernel's, give or take doubt_s */
    double doubt_s;
    uint64_t asked_ns;
    double asked_s; /* since 1970 */
    unsigned port;
    json_t *said; /* owned: its answer to this step, or NULL */
    bool error;   /* and that it is one */
};

struct check_pair {
    size_t a, b; /* of check->rank */
    bool measured;
    enum link_state state;
    double us, gbps; /* of the slower end */
    json_int_t bad;
    char *error; /* owned, or NULL: it is dead, and why */
};

/* A way between two ranks that can't be used. */
struct check_way {
    unsigned from, to; /* ranks */
    char *why;         /* owned */
};

struct check_row {
    char op[24];
    json_int_t bytes, bad;
    double us, algbw, busbw; /* sums over the ranks */
    unsigned ranks;
};

struct check {
    enum check_step step;
    struct check_rank *rank; /* owned, n of them */
    size_t n;
    size_t *in_pairs; /* owned: indices of those that pairs are made of */
    size_t paired;
    struct link_medians medians[2]; /* of links between nodes, and of those within */
    struct check_pair *pair;        /* owned */
    size_t pairs, round;
    struct check_way *way; /* owned */
    size_t ways;
    struct check_row *row; /* owned */
    size_t rows;
    char *world_error; /* owned, or NULL */
    char *nccl_id;     /* owned, or NULL */
    bool nccl;
    bool own_gpus; /* no two ranks have one in common */
    char token[33];
};

/* ---- check.c ---- */
void check_begin(struct cell *c);
/* a PROBED of the cell */
bool check_message(struct cell *c, struct member *member, const struct span *m);
enum cell_outcome check_look(struct cell *c);
void check_free(struct check *k);

/* ---- answers.c ---- */
/* What the ranks said in the step that is over, into the check. */
void check_take_listen(struct check *k);
void check_take_ways(struct check *k);
void check_log_strangers(const struct check *k); /* of the same step */
void check_take_pairs(struct check *k);
void check_take_world(struct check *k);
void check_set_error(char **to, const char *text); /* the first that is not empty stays */

/* ---- facts.c ---- */
/* What the facts say about the nodes: shown; whether all ranks have a GPU and an NCCL that fit
 * together. */
void check_show_facts(struct cell *c, struct check *k);
bool check_has_nccl(const struct check *k);
bool check_is_first(const struct check *k, size_t i); /* is rank i the first of its node? */

/* ---- verdict.c ---- */
struct grid;
/* A heading, a table, and sentences below it, a line each. */
void check_show(struct cell *c, const char *heading, const struct grid *grid,
                const struct buf *notes);
void check_note(struct buf *notes, const char *format, ...) PRINTF_LIKE(2, 3);
void check_show_pairs(struct cell *c, struct check *k);
void check_show_world(struct cell *c, struct check *k);
/* The sentence that the check fails with; false: there is nothing to fail for. */
bool check_is_bad(const struct check *k, struct buf *out);
const struct check_way *check_way_between(const struct check *k, unsigned from, unsigned to);

#endif
