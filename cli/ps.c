/* SPDX-License-Identifier: BSD-3-Clause */
/* ps.c - `cellspan ps`, `cellspan logs` and `cellspan stop` (declared in private.h): what runs as
 * this user (kernels.c finds it), what it has printed, and its end. */
#include "cli/private.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings_files.h"
#include "cli/kernels.h"
#include "cli/ps_brief.h"
#include "cli/ps_table.h"

#define ANSWER_NS (3 * NS_PER_S) /* until a kernel has said what runs */
/* while a kernel shows what was printed: it waits 10 s for a node that does not answer */
#define SILENCE_NS (30 * NS_PER_S)
#define END_NS     (15 * NS_PER_S) /* until a kernel has ended by itself */
#define KILL_NS    (5 * NS_PER_S)  /* until one that got SIGTERM has */

/* ---- ps ---- */

struct ps {
    bool all, json, brief, help;
};

const struct cmdline_row ps_rows[] = {
    { "all", NULL, "also who holds which GPU, and for root the notebooks of all users",
      offsetof(struct ps, all) },
    { "json", NULL, "print JSON with all that is known, for programs", offsetof(struct ps, json) },
    { "brief", NULL, "print JSON with the numbers of the tables only, always of one form",
      offsetof(struct ps, brief) },
    { "help", NULL, "this text", offsetof(struct ps, help) },
    { NULL, NULL, NULL, 0 },
};

static json_t *array_of(const struct overview *of, size_t n)
{
    json_t *all = json_array();

    for (size_t i = 0; all && i < n; i++)
        if (json_array_append(all, of[i].content) < 0) {
            json_decref(all);
            return NULL;
        }
    return all;
}

static json_t *more_json(const struct kernels *k)
{
    json_t *all = json_array();

    for (size_t i = 0; all && i < k->n_more; i++)
        if (json_array_append_new(all, json_pack("{s:I, s:I}", "uid", (json_int_t)k->more[i].owner,
                                                 "notebooks", (json_int_t)k->more[i].n)) < 0) {
            json_decref(all);
            return NULL;
        }
    return all;
}

static json_t *whole(const struct kernels *k, const struct overview *of, json_t *cards, bool all)
{
    json_t *list = array_of(of, k->n);

    return all && list ? json_pack("{s:o, s:o, s:O}", "notebooks", list, "left_out", more_json(k),
                                   "gpus", cards)
                       : list;
}

/* Takes what is to be told. A terminal shows it as it is: users name what root looks at, so it has
 * only characters that no terminal obeys. Jansson leaves DEL as it is. */
static int print_json(json_t *told, struct err *err)
{
    char *text = told ? json_dumps(told, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_ENSURE_ASCII)
                      : NULL;

    json_decref(told);
    if (!text)
        return err_set(err, "out of memory");
    for (const char *c = text; *c; c++)
        if (*c == 0x7f)
            fputs("\\u007f", stdout);
        else
            putchar(*c);
    putchar('\n');
    free(text);
    return 0;
}

static void print_tables(const struct kernels *k, const struct overview *of, json_t *cards,
                         bool all)
{
    const bool root = geteuid() == 0;

    ps_table_notebooks(k, of, all && root);
    if (k->n == 0)
        puts(all && root ? "no kernel of cellspan's runs on this machine"
                         : "no kernel of cellspan's runs as this user");
    if (all) {
        putchar('\n');
        ps_table_cards(cards, k, of);
        (void)fflush(stdout);
    }
    if (all && !root)
        fprintf(stderr, "cellspan ps: notebooks of other users are shown to root only; who holds a "
                        "GPU is what its lease says\n");
}

static int ps(const struct ps *o, struct err *err)
{
    const bool all = o->all, users = all && geteuid() == 0;
    struct kernels k = KERNELS_INIT;
    json_t *cards = NULL;
    struct overview *of = NULL;
    struct settings_files files = SETTINGS_FILES_INIT;
    int rc = kernels_find(&k, users, err);

    if (rc == 0 && all && settings_files_load(&files) < 0) /* the folder of the leases */
        rc = err_set(err, "out of memory");
    settings_files_release(&files);
    if (rc == 0 && !(of = overviews_ask(&k, all ? &cards : NULL, err)))
        rc = -1;
    if (rc == 0 && o->brief)
        rc = print_json(ps_brief(&k, of, cards, users), err);
    else if (rc == 0 && o->json)
        rc = print_json(whole(&k, of, cards, all), err);
    else if (rc == 0)
        print_tables(&k, of, cards, all);
    if (fflush(stdout) && rc == 0)
        rc = err_set(err, "the output can't be written: %s", strerror(errno));
    json_decref(cards);
    overviews_free(of, k.n);
    kernels_release(&k);
    return rc;
}

int command_ps(int argc, char **argv)
{
    struct ps o = { 0 };
    struct err err = { "" };
    int rc = 2;

    if (cmdline_parse(ps_rows, argc, argv, NULL, &o, &err) == 0) {
        if (o.help) {
            puts(
                "usage: cellspan ps [--all] [--json|--brief]\n\n"
                "Lists what runs as this user on this machine: notebooks and `cellspan run`, their ranks, where\n"
                "these are, the cell that runs, memory and GPUs of the ranks, and the age.\n");
            cmdline_help(ps_rows, stdout);
            return 0;
        }
        rc = ps(&o, &err) < 0 ? 1 : 0;
    }
    if (rc)
        fprintf(stderr, "cellspan ps: %s\n", err.text);
    return rc;
}

/* ---- logs ---- */

struct logs {
    const char *ranks, *cell, *word;
    bool help;
};

const struct cmdline_row logs_rows[] = {
    { "ranks", "SPEC", "only these ranks: 0,2-3", offsetof(struct logs, ranks) },
    { "r", "SPEC", "the same", offsetof(struct logs, ranks) },
    { "cell", "N", "what was printed in In [N] (the last cell on ranks)",
      offsetof(struct logs, cell) },
    { "help", NULL, "this text", offsetof(struct logs, help) },
    { NULL, NULL, NULL, 0 },
};

/* One word more than the options: which kernel. */
static int take_word(void *into, char **v, int n, const char *why)
{
    struct logs *o = into;

    (void)n;
    (void)why;
    if (v[0][0] == '-' || o->word)
        return 0;
    o->word = v[0];
    return 1;
}

/* Without a word the only kernel is meant. */
static const struct running_kernel *chosen(const struct kernels *k, const char *word,
                                           struct err *err)
{
    if (word)
        return kernels_named(k, word, err);
    if (k->n == 1)
        return k->of;
    return err_null(
        err,
        k->n ? "which of the %zu kernels? give a pid or a notebook (cellspan ps lists them)"
             : "no kernel of cellspan's runs as this user",
        k->n);
}

static int logs(const struct logs *o, struct err *err)
{
    char *const words[] = { "logs", "--ranks", (char *)o->ranks, "--cell", (char *)o->cell };
    char *some[5];
    struct kernels k = KERNELS_INIT;
    const struct running_kernel *one = NULL;
    struct buf line = BUF_INIT;
    size_t n = 0;
    int rc = 1;

    some[n++] = words[0];
    for (size_t i = 1; i < 5; i += 2)
        if (words[i + 1]) {
            some[n++] = words[i];
            some[n++] = words[i + 1];
        }
    if (option_line_write(&line, "ranks", some, n, err) == 0 && kernels_find(&k, false, err) == 0)
        one = chosen(&k, o->word, err);
    if (one)
        rc = kernel_show(one, line.p, SILENCE_NS, err);
    buf_release(&line);
    kernels_release(&k);
    return rc;
}

int command_logs(int argc, char **argv)
{
    struct logs o = { 0 };
    struct err err = { "" };
    int rc = 2;

    signal(SIGPIPE, SIG_IGN); /* a write to a closed stdout fails instead */
    if (cmdline_parse(logs_rows, argc, argv, take_word, &o, &err) == 0) {
        if (o.help) {
            puts(
                "usage: cellspan logs [-r SPEC] [--cell N] [PID|NOTEBOOK]\n\n"
                "Prints all that the ranks of a notebook have printed in a cell, as %ranks logs does.\n");
            cmdline_help(logs_rows, stdout);
            return 0;
        }
        rc = logs(&o, &err);
    }
    if (err.text[0])
        fprintf(stderr, "cellspan logs: %s\n", err.text);
    return rc;
}

/* ---- stop ---- */

const struct cmdline_row stop_rows[] = {
    { "help", NULL, "this text", offsetof(struct logs, help) },
    { NULL, NULL, NULL, 0 },
};

/* Does the kernel end within this time? */
static bool ends(const struct running_kernel *k, uint64_t limit_ns)
{
    const struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };
    const uint64_t until_ns = clock_now(&clock_system) + limit_ns;

    for (;;) {
        const bool over = clock_now(&clock_system) >= until_ns;

        if (!kernel_runs(k))
            return true;
        if (over)
            return false;
        (void)nanosleep(&pause, NULL);
    }
}

/* Sends it the signal, unless it has ended. true: it has, or does within KILL_NS. */
static bool ends_by(const struct running_kernel *k, int signo)
{
    if (!kernel_runs(k))
        return true;
    return (kill(k->pid, signo) == 0 || errno == ESRCH) && ends(k, KILL_NS);
}

static int stop(const char *word, struct err *err)
{
    struct kernels k = KERNELS_INIT;
    struct err unanswered = { "" };
    const struct running_kernel *one = NULL;
    int rc = 0;

    if (kernels_find(&k, false, err) < 0 || !(one = kernels_named(&k, word, err))) {
        kernels_release(&k);
        return -1;
    }
    json_decref(kernel_question(one, "shutdown_request", "{\"restart\":false}", "shutdown_reply",
                                ANSWER_NS, &unanswered));
    /* the kernel ends its processes on all machines when it gets SIGTERM, too */
    if ((unanswered.text[0] || !ends(one, END_NS)) && !ends_by(one, SIGTERM) &&
        !ends_by(one, SIGKILL))
        rc = err_set(err,
                     "%s: kernel %ld got SIGKILL and does not end: the system holds it (see "
                     "/proc/%ld/status)",
                     word, (long)one->pid, (long)one->pid);
    if (rc == 0)
        printf("%s: kernel %ld has ended%s\n", one->notebook, (long)one->pid,
               one->served ? "; the Jupyter server that started it may start it anew" : "");
    kernels_release(&k);
    return rc;
}

int command_stop(int argc, char **argv)
{
    struct logs o = { 0 };
    struct err err = { "" };
    int rc = 2;

    if (cmdline_parse(stop_rows, argc, argv, take_word, &o, &err) == 0) {
        if (o.help) {
            puts(
                "usage: cellspan stop PID|NOTEBOOK\n\n"
                "Ends a kernel of this user and all of its ranks, on all machines. Variables are lost; the notebook's\n"
                "file stays. Where a Jupyter server has started the kernel, shut it down there instead: the server\n"
                "starts a kernel anew that ends by itself.\n");
            cmdline_help(stop_rows, stdout);
            return 0;
        }
        if (!o.word)
            err_set(&err, "which kernel? give a pid or a notebook (cellspan ps lists them)");
        else
            rc = stop(o.word, &err) < 0 ? 1 : 0;
    }
    if (rc)
        fprintf(stderr, "cellspan stop: %s\n", err.text);
    return rc;
}
