/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c - the command line of `cellspan run`: options of %distribute, then a script. The magic's
 * parser reads the options. This file takes --python and --help, and parses the line once to report
 * mistakes before anything starts. run_job.c runs it, and takes Ctrl-C. */
#include "cli/private.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cmdline.h"
#include "base/random.h"
#include "base/settings.h"
#include "magics/option.h"

#define USAGE_ERROR 2
#define SET_MAX     16u

static char env_option[] = "--env";

struct run {
    const char *python; /* borrowed from argv; NULL: the default one */
    bool help;
    char **word; /* what goes on the option line; owned array of borrowed words */
    size_t n;
    char *set[SET_MAX]; /* owned, n_set of them: words that are not argv's */
    size_t n_set;
    const char *script; /* the first that is no option; "" when there is none */
    struct err refused; /* why a word can't be taken; "": all were */
};

static const struct cmdline_row rows[] = {
    { "python", "PATH", "the ranks' Python (the active environment's)",
      offsetof(struct run, python) },
    { "help", NULL, "this text", offsetof(struct run, help) },
    { NULL, NULL, NULL, 0 },
};

/* How many words from argv[i] belong to this option: itself and, where the table says so, its
 * value. */
static int option_words(char **argv, int i)
{
    const char *attached = NULL;
    const struct option *o = option_find(&magic_distribute, false, argv[i], &attached);
    int n = 1;

    if (o && !attached && o->kind != OPTION_MODULE && option_takes(o, argv[i + 1]) && argv[i + 1])
        attached = argv[i + n++];
    for (; attached && option_goes_on(o, attached, argv[i + n]); n++)
        attached = argv[i + n];
    return n;
}

static bool needs_cell(const char *word)
{
    const char *attached;
    const struct option *o = option_find(&magic_distribute, false, word, &attached);

    return o && !option_fits(o, false);
}

static bool is_module(const char *word)
{
    return strncmp(word, "-m", 2) == 0;
}

/* torchrun's word for what -n leaves out. How many words they are; 0: it is no such option. */
static int is_auto(char **argv, int i)
{
    static const char *const names[] = { "-n", "--nproc", "--nproc-per-node", "--nproc_per_node" };

    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const size_t n = strlen(names[k]);

        if (strcmp(argv[i], names[k]) == 0 && argv[i + 1] && strcmp(argv[i + 1], "auto") == 0)
            return 2;
        if (strncmp(argv[i], names[k], n) == 0 && strcmp(argv[i] + n, "=auto") == 0)
            return 1;
    }
    return 0;
}

/* 1: it was an option of torchrun, and *i is the index after it; 0: it was not; -1: refused. */
static int take_torchruns(struct run *r, char **argv, int *i, struct err *err)
{
    char *set = NULL;
    const int words = is_auto(argv, *i), rc = words ? 1 : torchrun_option(argv, i, &set, err);

    *i += words;
    if (!set)
        return rc;
    if (r->n_set == SET_MAX) {
        free(set);
        return err_set(err, "more than %d options set the environment: use --env less often",
                       SET_MAX);
    }
    r->set[r->n_set++] = set;
    r->word[r->n++] = env_option;
    r->word[r->n++] = set;
    return rc;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && !is_module(word) && strcmp(word, "--") != 0;
}

/* The script, or the module, with its arguments. */
static int take_script(struct run *r, char **v, int n)
{
    r->script = strcmp(v[0], "--") != 0 ? v[0] : n > 1 ? v[1] : "";
    for (int i = 0; i < n; i++)
        r->word[r->n++] = v[i];
    return n;
}

/* What is not in rows[] is for the magic. After a refusal nothing more is taken. */
static int take_words(void *into, char **v, int n, const char *why)
{
    struct run *r = into;
    int i = 0;

    (void)why;
    if (r->refused.text[0])
        return n;
    if (!is_option(v[0]))
        return take_script(r, v, n);
    if (needs_cell(v[0]))
        (void)err_set(&r->refused, "%.*s: only in a notebook, on top of a cell",
                      (int)strcspn(v[0], "="), v[0]);
    else if (take_torchruns(r, v, &i, &r->refused) == 0)
        for (const int words = option_words(v, 0); i < words; i++)
            r->word[r->n++] = v[i];
    return r->refused.text[0] ? n : i;
}

static int parse_arguments(struct run *r, int argc, char **argv, struct err *err)
{
    if (!(r->word = calloc(2 * (size_t)argc + 1, sizeof *r->word)))
        return err_set(err, "out of memory");
    r->script = "";
    if (cmdline_parse(rows, argc, argv, take_words, r, err) < 0)
        return -1;
    if (r->help)
        return 0;
    if (r->python && !*r->python)
        return err_set(err, "--python needs a value: --python PATH");
    return r->refused.text[0] ? err_set(err, "%s", r->refused.text) : 0;
}

static void show_help(void)
{
    char *options = help_line_options("distribute");

    puts(
        "usage: cellspan run [options] script.py [args...]\n"
        "       cellspan run [options] -m module [args...]\n\n"
        "Runs a script, or a module, on many ranks at once, with the environment that torchrun would set, and merges what "
        "they print.\n");
    cmdline_help(rows, stdout);
    if (options)
        fputs(options, stdout);
    free(options);
}

/* The parser is the notebook's, and calls what it parses by the magic's name. */
static void in_own_words(struct err *err)
{
    static const char theirs[] = "%distribute", ours[] = "cellspan run";
    static const char script[] = "which script?"; /* and how a notebook names it */
    char *at = strstr(err->text, theirs);
    char rest[sizeof err->text];

    if (strstr(err->text, script)) {
        snprintf(err->text, sizeof err->text,
                 "%s (cellspan run [options] script.py [args...], or -m module)", script);
        return;
    }
    if (!at || (at > err->text && at[-1] == '%'))
        return;
    snprintf(rest, sizeof rest, "%s", at + sizeof theirs - 1);
    snprintf(at, sizeof err->text - (size_t)(at - err->text), "%s%s", ours, rest);
}

static bool gives_cwd(const struct run *r)
{
    for (size_t i = 0; i < r->n && r->word[i] != r->script; i++) {
        const char *attached;
        const struct option *o = option_find(&magic_distribute, false, r->word[i], &attached);

        if (o && o->name && strcmp(o->name, "cwd") == 0)
            return true;
    }
    return false;
}

/* The parser refuses a notebook by its name alone. Here it is known whether there is one. */
static void refuse_missing(const struct run *r, struct err *err)
{
    if (strstr(err->text, " is a notebook, not a script") && !gives_cwd(r) &&
        access(r->script, R_OK) < 0) {
        *err = (struct err){ "" }; /* the first text would stay */
        (void)err_set(err, "%s: %s", r->script, strerror(errno));
    }
}

/* Parses the line that will be sent, to report mistakes at once. */
static int check(struct slice line, const struct run *r, struct err *err)
{
    struct plan plan;
    struct slice options;
    int rc = 0;

    if (plan_peek(line, &options) != 1)
        return err_set(err, "these arguments can't be passed on");
    if (plan_parse(line, options, &plan, err) < 0) {
        in_own_words(err);
        refuse_missing(r, err);
        return -1;
    }
    if (plan.kind == PLAN_SCRIPT && !plan.cwd && strcmp(plan.argv[0], "-m") != 0 &&
        access(r->script, R_OK) < 0)
        rc = err_set(err, "%s: %s", r->script, strerror(errno));
    plan_release(&plan);
    return rc;
}

static int run(const struct run *r, struct slice line, struct err *err)
{
    struct python_interpreter python;
    int status;

    if (interpreter_find(&python, r->python, err) < 0)
        return 1;
    signal(SIGPIPE, SIG_IGN); /* a write to a closed stdout fails instead */
    status = run_job(&python, line, err);
    interpreter_release(&python);
    return status < 0 ? 1 : status;
}

int command_run(int argc, char **argv)
{
    struct run r = { 0 };
    struct buf line = BUF_INIT;
    struct err err = { "" };
    int status = USAGE_ERROR;

    settings_open_log("run");
    if (random_open(&err) == 0 && parse_arguments(&r, argc, argv, &err) == 0) {
        if (r.help) {
            show_help();
            status = 0;
        } else if (option_line_write(&line, "distribute", r.word, r.n, &err) == 0 &&
                   check(buf_slice(&line), &r, &err) == 0) {
            status = run(&r, buf_slice(&line), &err);
        }
    }
    if (err.text[0])
        fprintf(stderr, "cellspan run: %s\n", err.text);
    buf_release(&line);
    for (size_t k = 0; k < r.n_set; k++)
        free(r.set[k]);
    free(r.word);
    return status;
}
