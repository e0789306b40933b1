/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.h - parses a cell that starts with a cellspan magic into a plan: what the cell asks for.
 * Pure: text in, a plan or a usage error out. */
#ifndef MAGICS_PLAN_H
#define MAGICS_PLAN_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

enum plan_kind {
    PLAN_DISTRIBUTE, /* %%distribute: run `body` on the ranks */
    PLAN_SCRIPT,     /* %distribute script.py args, or -m module args: run argv on the ranks */
    PLAN_PUSH,       /* %push a b [-r R] */
    PLAN_PULL,       /* %pull a [-r R] [--into NAME] */
    PLAN_RANKS, /* %ranks: the table; %ranks stop|restart|where|logs|debug [-r R], %ranks check|code
                 */
    PLAN_HELP,  /* --help anywhere: show `help` */
};

enum plan_ranks {
    PLAN_RANKS_TABLE,
    PLAN_RANKS_STOP,
    PLAN_RANKS_RESTART,
    PLAN_RANKS_WHERE,
    PLAN_RANKS_CHECK,
    PLAN_RANKS_LOGS,
    PLAN_RANKS_DEBUG,
    PLAN_RANKS_FREE,
    PLAN_RANKS_CODE
};
enum plan_merge { PLAN_FOLD, PLAN_PREFIX, PLAN_RANK0, PLAN_PANEL, PLAN_RAW };
#define PLAN_N_UNSET    0u
#define PLAN_N_GPU      0xffffffffu /* -n gpu: one rank per visible GPU */
#define PLAN_GPUS_UNSET 0u
#define PLAN_GPUS_OWN   0x10000u /* a flag beside the number, only while the option is parsed */

/* The plan owns all strings. A string is NULL if its option was not given. */
struct plan {
    enum plan_kind kind;
    enum plan_ranks ranks_do; /* of PLAN_RANKS */
    char *go_on;              /* --continue of %ranks debug: "all"; NULL: not given */
    unsigned cell;            /* --cell of %ranks logs: In [cell]; 0: not given */
    unsigned n;               /* world size, PLAN_N_UNSET or PLAN_N_GPU */
    unsigned per_node;        /* ranks on each machine; 0: not given */
    /* --ranks as written, checked for syntax only: ranks_parse() needs the world size */
    char *ranks;
    enum plan_merge merge;
    bool merge_set; /* --merge was given */
    char *into;     /* a Python identifier */
    bool gather;
    bool no_capture;
    char **capture; /* NULL-terminated identifiers; NULL: all names that the cell reads */
    char *init;     /* "nccl", "gloo" or "auto" (--init without a value); NULL: off */
    char **env;     /* NULL-terminated "K=V" */
    char *cwd;
    bool no_code;        /* the notebook's modules don't go to other machines */
    char **with;         /* NULL-terminated files and folders that go there; NULL: none */
    char *seed;          /* as seed_is() takes it */
    uint64_t timeout_ns; /* 0: none */
    uint64_t grace_ns;   /* 0: not given */
    bool fresh;
    bool beside;        /* in a world of its own, which ends with the cell; a script always is */
    char *on;           /* "ENGINE" or "ENGINE:SPEC", the name [a-z0-9-]+, the spec not empty */
    char *image;        /* of the containers in which they run; "none": in none */
    unsigned gpus;      /* of each rank, or PLAN_GPUS_UNSET */
    bool own_gpus;      /* each rank sees only its own GPUs */
    bool no_gpu;        /* ranks see no GPU; excludes gpus and PLAN_N_GPU */
    uint64_t wait_ns;   /* how long to wait for GPUs that others hold; 0: not at all */
    bool share;         /* others may hold the ranks' GPUs too */
    bool changes_group; /* an option with OPTION_GROUP was given */
    char **names;       /* of PLAN_PUSH and PLAN_PULL: NULL-terminated identifiers, at least one */
    /* of PLAN_SCRIPT: NULL-terminated; argv[0] is the script, or "-m" then the module */
    char **argv;
    /* of PLAN_DISTRIBUTE: as many newlines as the cell has lines above it, then its lines */
    char *body;
    size_t body_size; /* bytes */
    char *help;       /* of PLAN_HELP */
};

/* What counts where a line does not say it, and what it may not exceed: settings. NULL and 0: they
 * say nothing, and fold for merge. */
struct plan_defaults {
    enum plan_merge merge;
    char *on;                             /* "": here; of a group whose ranks are nowhere yet */
    char *image;                          /* "": none; where `on` can have one */
    unsigned n, n_most;                   /* of a group that has no size yet; any group's */
    uint64_t timeout_ns, timeout_most_ns; /* of %%distribute and scripts */
    uint64_t grace_ns, grace_most_ns;     /* of any cell; not 0: CELLSPAN_GRACE=0 is 1 ns */
};

/* Is the cell for cellspan? It is if its first line that is neither blank nor a comment is a
 * cellspan cell magic, or if the whole cell is one cellspan line magic. 0: no. 1: yes; then *line
 * is the option line (borrowed from cell), in which home expands `{name}` and `$name`. */
int plan_peek(struct slice cell, struct slice *line);

/* line: the expanded option line, or that of plan_peek if nothing needs expansion. -1: *err is one
 * line for the user, which names the word and the nearest valid one. On failure *plan needs no
 * release. */
MUST_USE int plan_parse(struct slice cell, struct slice line, struct plan *plan, struct err *err);
void plan_release(struct plan *plan);
/* Sets plan->on as --on does, to what the setting `as` says. -1: *err names it. */
MUST_USE int plan_set_on(struct plan *plan, const char *as, const char *text, struct err *err);
/* The option of %%distribute whose default is a setting, as "--seed"; NULL: there is none. Returns
 * out. */
#define DISTRIBUTE_OPTION 32u
const char *distribute_option_of(struct slice setting, char out[static DISTRIBUTE_OPTION]);
/* "stop", …; "" for PLAN_RANKS_TABLE. */
const char *ranks_command_name(enum plan_ranks command);
/* Is the cell this command of %ranks, in a line that needs no expansion? Then the caller releases
 * *plan. */
bool plan_is_ranks(struct slice cell, enum plan_ranks command, struct plan *plan);
/* Does it only ask for a magic's help, or is it a %ranks line with a mistake, such as an option
 * that it does not have? Then it neither needs ranks nor changes them. */
bool plan_only_tells(struct slice cell);

/* The help text of a magic ("distribute", "push", …); the caller frees it. NULL: no such magic. */
char *help_text(const char *magic);
/* The part of the help that lists the options of the magic with one %; otherwise as help_text. */
char *help_line_options(const char *magic);

/* Tab completion at byte offset `at` of the cell. 1: fills *out with a JSON array of strings and
 * *start with the byte offset where they start. 0: home must complete: this is not a cellspan
 * magic's line, or a Python name or a path. -1: memory is out. `world` is the default group's size,
 * for rank numbers. */
struct buf;
int complete_cell(struct slice cell, size_t at, unsigned world, struct buf *out, size_t *start);
/* The magic ("distribute") whose name or option line is at this offset, or NULL. */
const char *plan_at(struct slice cell, size_t at);

#endif
