/* plan.h - what a cell that starts with a cellspan magic asks for. Pure: text in, a plan or a usage
 * error out. */
#ifndef MAGICS_PLAN_H
#define MAGICS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

enum plan_kind {
    PLAN_DISTRIBUTE, /* %%distribute: run `body` on the ranks */
    PLAN_SCRIPT,     /* %distribute script.py args, or -m module args: run argv on the ranks */
    PLAN_PUSH,       /* %push a b [-r R] */
    PLAN_PULL,       /* %pull a [-r R] [--into NAME] */
    PLAN_RANKS,      /* %ranks: the table; %ranks stop|restart|where|logs [-r R], %ranks check */
    PLAN_HELP,       /* --help anywhere: show `help` */
};

enum plan_ranks {
    PLAN_RANKS_TABLE,
    PLAN_RANKS_STOP,
    PLAN_RANKS_RESTART,
    PLAN_RANKS_WHERE,
    PLAN_RANKS_CHECK,
    PLAN_RANKS_LOGS
};
enum plan_merge { PLAN_FOLD, PLAN_PREFIX, PLAN_RANK0, PLAN_RAW };
#define PLAN_N_UNSET    0u
#define PLAN_N_GPU      0xffffffffu /* -n gpu: one rank per visible GPU */
#define PLAN_GPUS_UNSET 0u
#define PLAN_GPUS_OWN   0x10000u /* beside a number, while the option is read */

/* All strings are owned by the plan and may be NULL where the option was not given. */
struct plan {
    enum plan_kind kind;
    enum plan_ranks ranks_do; /* of PLAN_RANKS */
    unsigned cell;            /* --cell of %ranks logs: In [cell]; 0: not given */
    unsigned n;               /* world size, PLAN_N_UNSET or PLAN_N_GPU */
    unsigned per_node;        /* ranks on each machine; 0: not given, and n says, or doesn't */
    /* --ranks as written, checked for syntax only: ranks_parse() needs the world size */
    char *ranks;
    enum plan_merge merge;
    bool merge_set;
    char *into; /* a Python identifier */
    bool gather;
    bool no_capture;
    char **capture; /* NULL-terminated identifiers; NULL: all that the cell reads */
    char *init;     /* "nccl", "gloo" or "auto" (--init without a value); NULL: off */
    char **env;     /* NULL-terminated "K=V" */
    char *cwd;
    uint64_t timeout_ns; /* 0: none */
    uint64_t grace_ns;   /* 0: not given */
    bool fresh;
    /* "ENGINE" or "ENGINE:SPEC", the name [a-z0-9-]+, the spec not empty */
    char *on;
    unsigned gpus; /* of each rank, or PLAN_GPUS_UNSET */
    bool own_gpus; /* and each sees those alone */
    bool no_gpu;   /* ranks see no GPU; neither gpus nor PLAN_N_GPU go with it */
    bool share;    /* others may hold the ranks' GPUs too */
    /* of PLAN_PUSH and PLAN_PULL: NULL-terminated identifiers, at least one */
    char **names;
    /* of PLAN_SCRIPT: NULL-terminated; argv[0] is the script, or "-m" then the module */
    char **argv;
    /* of PLAN_DISTRIBUTE: as many newlines as the cell has lines above it, then its lines */
    char *body;
    size_t body_size; /* bytes */
    char *help;       /* of PLAN_HELP */
};

/* Is the first line that is neither blank nor a comment a cellspan cell magic, or is the cell
 * nothing but one cellspan line magic? 0 no; 1 yes; the cell's option line (borrowed from cell)
 * goes to *line for `{name}`, `$name` expansion. */
int plan_peek(struct slice cell, struct slice *line);

/* line: the option line as expanded (as given by plan_peek where nothing is to expand). -1: one
 * line for the user, that names the token and the nearest valid one. On failure *plan needs no
 * release. */
MUST_USE int plan_parse(struct slice cell, struct slice line, struct plan *plan, struct err *err);
void plan_release(struct plan *plan);

/* The help text of a magic ("distribute", "push", …), the caller's to free; NULL: no such magic. */
char *plan_help(const char *magic);
/* The part of it that lists the options which a magic with one % takes; as plan_help. */
char *plan_line_options(const char *magic);

/* What Tab offers at byte offset `at` of the cell: fills *out with a JSON array of strings and
 * *start with the byte offset where they start. `world` is the default group's size (for rank
 * numbers). 0: not within a cellspan magic's line, or what stands there is a Python name or a path,
 * which home completes; 1: ours. -1: memory is out. */
struct buf;
int plan_complete(struct slice cell, size_t at, unsigned world, struct buf *out, size_t *start);
/* The magic whose name or option line is at the offset ("distribute"), or NULL. */
const char *plan_at(struct slice cell, size_t at);

#endif
