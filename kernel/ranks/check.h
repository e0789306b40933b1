/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h - %ranks check: measures the links between ranks, and shows which are slow or broken. */
#ifndef KERNEL_RANKS_CHECK_H
#define KERNEL_RANKS_CHECK_H

#include "base/links.h"
#include "kernel/ranks/ranks.h"

#define CHECK_RANKS_MAX 64u /* with more ranks, only one rank of each node is in the pairs */

enum check_step { CHECK_FACTS, CHECK_LISTEN, CHECK_CONNECT, CHECK_PAIRS, CHECK_WORLD, CHECK_CLOSE };

struct check_rank {
    unsigned rank, node;
    const char *node_name; /* owned */
    json_t *facts;         /* owned, or NULL */
    double offset_s;       /* its clock minus the kernel's, exact to +- doubt_s */
    double doubt_s;
    uint64_t asked_ns;
    double asked_s; /* since 1970 */
    unsigned port;
    json_t *said; /* owned: its answer to this step, or NULL */
    bool error;   /* the answer is an error */
};

struct check_pair {
    size_t a, b; /* indices in check->rank */
    bool measured;
    enum link_state state;
    double us, gbps; /* as the slower end has measured */
    json_int_t bad;  /* numbers that arrived changed */
    char *error;     /* owned: why the link is dead; NULL: it is not */
};

/* One rank can't reach another. */
struct check_way {
    unsigned from, to; /* ranks */
    char *why;         /* owned */
};

/* A row of the table of the whole world: an operation with so many bytes. */
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
    size_t *in_pairs; /* owned: indices of the ranks in pairs, `paired` of them */
    size_t paired;
    struct link_medians medians[2]; /* of links between nodes, and within nodes */
    struct check_pair *pair;        /* owned */
    size_t pairs, round;
    struct check_way *way; /* owned */
    size_t ways, room_ways;
    struct check_row *row; /* owned */
    size_t rows, room_rows;
    char *world_error; /* owned, or NULL */
    char *nccl_id;     /* owned, or NULL */
    bool nccl;
    bool can_use_nccl; /* NCCL accepts the GPUs of these ranks */
    char token[33];
};

/* ---- check.c ---- */
void check_free(struct check *k);

/* ---- check_answers.c ---- */
/* Each notes the ranks' answers of one step in the check. */
void check_note_listen(struct check *k);
void check_note_ways(struct check *k);
void check_log_strangers(const struct check *k);
void check_note_pairs(struct check *k);
void check_note_world(struct check *k);
void check_set_error(char **to, const char *text); /* keeps the first text that is not empty */

/* ---- check_facts.c ---- */
void check_show_facts(struct cell *c, struct check *k); /* the table of nodes */
/* Can the ranks use NCCL together: GPUs of their own, and the same version of NCCL? */
bool check_has_nccl(const struct check *k);
bool check_is_first(const struct check *k, size_t i); /* is rank i the first of its node? */

/* ---- check_report.c ---- */
struct grid;
/* Shows a heading, a table (maybe empty), and notes below it. */
void check_show(struct cell *c, const char *heading, const struct grid *grid,
                const struct buf *notes);
void check_note(struct buf *notes, const char *format, ...) PRINTF_LIKE(2, 3); /* adds a line */
void check_show_pairs(struct cell *c, struct check *k);
void check_show_world(struct cell *c, struct check *k);
/* true: the check fails; *out: the error's text. */
bool check_is_bad(const struct check *k, struct buf *out);
const struct check_way *check_way_between(const struct check *k, unsigned from, unsigned to);

#endif
