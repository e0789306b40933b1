/* SPDX-License-Identifier: BSD-3-Clause */
/* option.h - the tables of options and words that a magic's line may have. Parser, help, completion
 * and tests read the same rows. */
#ifndef MAGICS_OPTION_H
#define MAGICS_OPTION_H

#include "magics/plan.h"
#include "magics/table.h"

/* ---- token.c ---- */
/* Splits an option line into words as a shell does, with blanks, quotes and backslashes, but
 * without expansion. */

struct token {
    char *text; /* without its quotes; owned by the tokens */
    size_t at;  /* where it starts and ends in the line, bytes */
    size_t end;
};

struct tokens {
    struct token *v;
    size_t n, room;
};

#define TOKENS_INIT { NULL, 0, 0 }
#define TOKENS_MAX  16384u /* words of one line */

/* unfinished: a quote may be open at the end (the user is still typing). On failure *t is empty. */
MUST_USE int tokens_split(struct slice line, bool unfinished, struct tokens *t, struct err *err);
void tokens_release(struct tokens *t);

/* A blank, or the end of a line: what separates words. */
static inline bool token_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

/* Writes a word for an error text: on one line, cut to TOKEN_SHOWN bytes. Returns out. */
#define TOKEN_SHOWN 80
const char *token_shown(char out[static TOKEN_SHOWN], const char *word);

enum option_kind {
    OPTION_FLAG,  /* bool: no value */
    OPTION_COUNT, /* unsigned: min to max, or the only word of `words` */
    /* unsigned: min to max, or the only word of `words`, or both as "2,own" (sets PLAN_GPUS_OWN) */
    OPTION_GPUS,
    OPTION_NUMBER, /* unsigned: min to max; words_are says what it counts */
    OPTION_ENGINE, /* char *: NAME or NAME:SPEC; `words`: the engines that cellspan itself has */
    OPTION_RANKS,  /* char *: a rank set, kept as written */
    OPTION_MODE,   /* int-sized enum: the index of one of words */
    OPTION_WORD,   /* char *: one of `words`; "auto" if OPTION_BARE and no value is given */
    OPTION_NAME,   /* char *: a Python identifier */
    OPTION_NAMES,  /* char **: comma-separated identifiers; a repeated option adds more */
    OPTION_ENV,    /* char **: K=V; a repeated option adds more */
    OPTION_PATH,   /* char *: any text that is not empty */
    OPTION_PATHS,  /* char **: the same; a repeated option adds more */
    OPTION_SEED,   /* char *: a number, as seed_is() takes it */
    OPTION_TIME,   /* uint64_t, nanoseconds: min to max milliseconds */
    OPTION_MODULE, /* ends the options: the module and its arguments follow */
    OPTION_HELP,   /* ends the options: shows the help */
};

#define OPTION_CELL     1u  /* only with %%magic */
#define OPTION_LINE     2u  /* only with %magic */
#define OPTION_BARE     4u  /* the value may be left out */
#define OPTION_NOTEBOOK 8u  /* useless outside a notebook: the help of `cellspan run` omits it */
#define OPTION_DESTROYS 16u /* ends ranks: never suggested for a misspelt option */
#define OPTION_GROUP    32u /* may change the group of ranks */

struct option {
    const char *name; /* without "--"; users may write '_' for '-'; NULL: only the short form */
    char letter;      /* the short form; 0: none */
    /* a short form of two letters that other programs have; NULL: none. The help omits it */
    const char *also;
    enum option_kind kind;
    unsigned flags;
    size_t at;                /* offset in struct plan */
    const char *value;        /* how help writes the value; NULL: none */
    const char *const *words; /* NULL-terminated */
    const char *words_are;    /* the noun for one of `words`: "mode" */
    uint64_t min, max;
    const char *standard; /* the default, as text for the help; NULL: not shown */
    const char *alone;    /* the default of `cellspan run`, if different; NULL: the same */
    const char *excludes; /* the name of an option that can't be given with this one; NULL: none */
    const char *command;  /* the only command of the magic that takes it; NULL: all do */
    const char *argument; /* its name as an argument in Python; NULL: the same, with '_' for '-' */
    const char *help;
};

struct call;

/* A word without dashes (%ranks stop). */
struct command {
    const char *name;
    int number;
    const char *help;
    bool destroys; /* ends ranks or their variables: never suggested for a misspelt word */
    /* Checks the command's options together; NULL: there is nothing to check. */
    int (*check)(const struct call *call, const struct plan *plan, struct err *err);
};

/* Whose variables the words name that are not options. */
enum names { NAMES_NONE, NAMES_OF_HOME, NAMES_OF_RANKS };

/* What users of other programs write for an option, and what says the same here. */
struct habit {
    const char *word; /* without "--" */
    const char *here; /* "--merge rank0" */
};

struct magic {
    const char *name;
    bool cell;   /* there is a %%name, too */
    bool script; /* with %name, the options end at the first word */
    enum names names;
    const char *const *usage; /* lines, NULL-terminated */
    const char *about;
    const struct option *options;   /* ended by a row without name and letter */
    const struct command *commands; /* NULL, or ended by a row without name */
    const struct habit *habits;     /* NULL, or ended by a row without word */
    /* Checks the options together and fills the rest of the plan. */
    int (*finish)(const struct call *call, struct plan *plan, struct err *err);
};

#define OPTIONS_MAX 32u /* rows of one table, at most */

/* One use of a magic, while it is parsed. */
struct call {
    const struct magic *magic;
    bool cell; /* %%, not % */
    struct tokens tokens;
    const char
        /* by row: the option as the user wrote it ("-n"), or NULL; borrowed from `as` or table */
        *given[OPTIONS_MAX];
    char as[OPTIONS_MAX][40];
    size_t *words; /* indices of the tokens that are not options; owned */
    size_t words_n;
    bool module; /* -m ended the options */
    bool help;   /* --help was given; the rest of the line was not read */
    struct slice body;
    unsigned lines_above; /* newlines before the body */
};

/* Parses the tokens of call by its magic's table; fills plan, call->given and call->words. */
MUST_USE int options_parse(struct call *call, struct plan *plan, struct err *err);
/* The row of an option if the user gave it, else NULL. *as: how the user wrote it. */
const struct option *option_given(const struct call *call, const char *name, const char **as);

/* For completion: the row that a word names ("--merge", "--merge=x", "-r", "-n4"), or NULL.
 * *attached: where its value starts in word, or NULL. */
const struct option *option_find(const struct magic *m, bool cell, const char *word,
                                 const char **attached);
bool option_fits(const struct option *o, bool cell); /* is it valid with %% (cell) or with %? */
/* is the next word (or NULL) its value? */
bool option_takes(const struct option *o, const char *next);
/* Does the next word (or NULL) continue a value that is a list: "ssh:h1, h2"? */
bool option_goes_on(const struct option *o, const char *value, const char *next);
static inline bool option_is_last(const struct option *o)
{
    return !o->name && !o->letter;
}

/* Converts the value's text and stores it in its field of plan. as: the option as the user wrote
 * it. text: NULL if there is no value. */
MUST_USE int value_set(const struct option *o, const char *as, const char *text, struct plan *plan,
                       struct err *err);
/* Does the rank set fit a world of n? *err names the options as the user wrote them. */
MUST_USE int value_ranks_within(const char *n_as, unsigned n, const char *as, const char *spec,
                                struct err *err);
/* Frees what value_set() has stored, if that needs it. */
void value_release(const struct option *o, struct plan *plan);
/* Adds a copy to a NULL-terminated list. */
MUST_USE int list_add(char ***list, const char *text, size_t size);
size_t list_count(char *const *list);
void list_free(char **list);
/* Checks comma-separated names and adds them. */
MUST_USE int names_add(char ***list, const char *as, const char *text, struct err *err);
/* Checks the ranks of call against its -n, if both are given. */
MUST_USE int call_check_ranks(const struct call *call, const struct plan *plan, struct err *err);
/* Takes all plain words as names. -1 if there are none: "%push: which names?" */
MUST_USE int call_names(const struct call *call, struct plan *plan, struct err *err);

/* The magics; NULL after the last. */
const struct magic *magic_get(size_t i);
const struct magic *magic_find(struct slice name);
#define MAGIC_DECLARE(name) extern const struct magic magic_##name;
MAGICS(MAGIC_DECLARE)
#undef MAGIC_DECLARE

/* A row for a field of struct plan: name, kind and field, then what else it has. */
#define OPTION(name_, kind_, field, ...)                                                           \
    { .name = name_, .kind = kind_, .at = offsetof(struct plan, field), __VA_ARGS__ }
/* Rows that several tables have. */
#define OPTION_ROW_RANKS(what)                                                                     \
    OPTION("ranks", OPTION_RANKS, ranks, .letter = 'r', .value = "SPEC", .standard = "all",        \
           .help = what ": 0, 1,3-5, -1 (the last)")
#define OPTION_ROW_HELP { .name = "help", .letter = 'h', .kind = OPTION_HELP, .help = "show this" }

/* ---- head.c ---- */
/* Finds the cellspan magic at the start of a cell, or on one of its lines. */

struct head {
    const struct magic *magic;
    bool cell;            /* %%, not % */
    bool help;            /* "%ranks?" */
    size_t at;            /* where the magic's line starts in the cell, bytes */
    size_t end;           /* where it ends, without its newline */
    struct slice line;    /* the option line: what follows the name */
    struct slice body;    /* what follows the line */
    unsigned lines_above; /* newlines before the body */
};

/* 1: the cell is ours (see plan_peek); 0: it is not. */
int head_find(struct slice cell, struct head *h);
/* 1: the line at this offset is a cellspan magic's. A line magic may be anywhere in the cell. */
int head_at(struct slice cell, size_t at, struct head *h);

#endif
