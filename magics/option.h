/* option.h - the tables that say what may stand on a magic's line. Parser, help, completion and
 * tests read the same rows. */
#ifndef MAGICS_OPTION_H
#define MAGICS_OPTION_H

#include "magics/plan.h"
#include "magics/token.h"

enum option_kind {
    OPTION_FLAG,  /* bool: no value */
    OPTION_COUNT, /* unsigned: min to max, or the one of words */
    /* unsigned: min to max, or the one of words, or both as "2,own": PLAN_GPUS_OWN is set then */
    OPTION_GPUS,
    OPTION_NUMBER, /* unsigned: min to max, of what words_are says */
    OPTION_ENGINE, /* char *: NAME or NAME:SPEC; words are those that are always there */
    OPTION_RANKS,  /* char *: a rank set, kept as written */
    OPTION_MODE,   /* int-sized enum: the index of one of words */
    OPTION_WORD,   /* char *: one of words; "auto" where OPTION_BARE has no value */
    OPTION_NAME,   /* char *: a Python identifier */
    OPTION_NAMES,  /* char **: identifiers with commas between; more than one such option adds up */
    OPTION_ENV,    /* char **: K=V; adds up */
    OPTION_PATH,   /* char *: anything but nothing */
    OPTION_TIME,   /* uint64_t, nanoseconds: min to max milliseconds */
    OPTION_MODULE, /* ends the options: the module and its arguments follow */
    OPTION_HELP,   /* ends the options: shows the help */
};

#define OPTION_CELL     1u /* only with %%magic */
#define OPTION_LINE     2u /* only with %magic */
#define OPTION_BARE     4u /* the value may be left out */
#define OPTION_NOTEBOOK 8u /* of no use outside a notebook: `cellspan run` does not tell of it */

struct option {
    const char *name; /* without "--", where '_' is as good as '-'; NULL: only the short form */
    char letter;      /* the short form; 0: none */
    /* a short form of two letters, which others use; NULL: none. No help tells of it */
    const char *also;
    enum option_kind kind;
    unsigned flags;
    size_t at;                /* offset in struct plan */
    const char *value;        /* how help writes the value; NULL: none */
    const char *const *words; /* NULL-terminated */
    const char *words_are;    /* what one of words is: "mode" */
    uint64_t min, max;
    const char *standard; /* the default, in words; NULL: nothing to say */
    const char *alone;    /* that of `cellspan run`, where it is another; NULL: the same */
    const char *excludes; /* the name of another option; NULL: none */
    const char *help;
};

/* A word that stands without dashes (%ranks stop). */
struct command {
    const char *name;
    int number;
    const char *help;
};

struct call;

struct magic {
    const char *name;
    bool cell;                /* %%name is there */
    bool script;              /* %name: the options end at the first word */
    const char *const *usage; /* lines, NULL-terminated */
    const char *about;
    const struct option *options;   /* the last row has neither name nor letter */
    const struct command *commands; /* NULL, or the last has no name */
    /* Checks the whole and fills the rest of the plan. */
    int (*finish)(const struct call *call, struct plan *plan, struct err *err);
};

#define OPTIONS_MAX 24u /* rows of one table, at most */

/* One use of a magic, while it is parsed. */
struct call {
    const struct magic *magic;
    bool cell; /* %%, not % */
    struct tokens tokens;
    const char
        /* by row: the option as it was written ("-n"), or NULL; borrowed from `as` or the table */
        *given[OPTIONS_MAX];
    char as[OPTIONS_MAX][40];
    size_t *words; /* indices of the tokens that are no options; owned */
    size_t words_n;
    bool module; /* -m ended the options */
    bool help;   /* --help was met; what follows was not looked at */
    struct slice body;
    unsigned lines_above; /* newlines before the body */
};

/* Reads the tokens of call by the table of its magic into plan, call->given and call->words. */
MUST_USE int options_parse(struct call *call, struct plan *plan, struct err *err);
/* The row of an option that was given, by name, or NULL. *as: how it was written. */
const struct option *option_given(const struct call *call, const char *name, const char **as);

/* For completion: the row that a word names ("--merge", "--merge=x", "-r", "-n4"), or NULL.
 * *attached: where its value starts in word, or NULL. */
const struct option *option_find(const struct magic *m, bool cell, const char *word,
                                 const char **attached);
bool option_fits(const struct option *o, bool cell); /* may it stand there? */
/* is the next word (or NULL) its value? */
bool option_takes(const struct option *o, const char *next);
/* Does the next word (or NULL) go on with the list that the value is: "ssh:h1, h2"? */
bool option_goes_on(const struct option *o, const char *value, const char *next);
static inline bool option_is_last(const struct option *o)
{
    return !o->name && !o->letter;
}

/* Turns the value's text into the field of plan; `as` is the option as it was written, text NULL
 * where there is none. */
MUST_USE int value_set(const struct option *o, const char *as, const char *text, struct plan *plan,
                       struct err *err);
/* 0: it is one; -1: *err says why not, after "as text: " */
MUST_USE int value_identifier(const char *as, const char *text, struct err *err);
/* "10", "10s", "1.5m", "2h", "500ms"; -1: it is none */
MUST_USE int value_duration(const char *text, uint64_t *ns);
/* Does the rank set fit a world of n? The err says it in the words of the line. */
MUST_USE int value_ranks_within(const char *n_as, unsigned n, const char *as, const char *spec,
                                struct err *err);
/* Adds a copy to a NULL-terminated list. */
MUST_USE int list_add(char ***list, const char *text, size_t size);
size_t list_count(char *const *list);
/* Adds names, separated by commas, each checked. */
MUST_USE int names_add(char ***list, const char *as, const char *text, struct err *err);
/* Checks the ranks of call against its -n, where both are known. */
MUST_USE int call_check_ranks(const struct call *call, const struct plan *plan, struct err *err);
/* All that stands as plain words, as names: "%push: which names?" when there is none. */
MUST_USE int call_names(const struct call *call, struct plan *plan, struct err *err);

/* The magics; NULL after the last. */
const struct magic *magic_get(size_t i);
const struct magic *magic_find(struct slice name);
extern const struct magic magic_distribute, magic_push, magic_pull, magic_ranks;

/* Rows that more than one table has. */
#define OPTION_ROW_RANKS(what)                                                                     \
    { .name = "ranks",                                                                             \
      .letter = 'r',                                                                               \
      .kind = OPTION_RANKS,                                                                        \
      .at = offsetof(struct plan, ranks),                                                          \
      .value = "SPEC",                                                                             \
      .standard = "all",                                                                           \
      .help = what ": 0, 1,3-5, -1 (the last)" }
#define OPTION_ROW_HELP { .name = "help", .letter = 'h', .kind = OPTION_HELP, .help = "show this" }

#endif
