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

#include "base/clock.h"
#include "base/process.h"
#include "base/utf8.h"
#include "cli/kernels.h"

#define ANSWER_NS (3 * NS_PER_S) /* until a kernel has said what runs */
/* while a kernel shows what was printed: it waits 10 s for a node that does not answer */
#define SILENCE_NS (30 * NS_PER_S)
#define END_NS     (15 * NS_PER_S) /* until a kernel has ended by itself */
#define KILL_NS    (5 * NS_PER_S)  /* until one that got SIGTERM has */
#define SHOWN      44              /* characters of a notebook's path in the table */

/* ---- ps ---- */

struct ps {
    bool json, help;
};

const struct cmdline_row ps_rows[] = {
    { "json", NULL, "print a JSON array with all that is known, for programs",
      offsetof(struct ps, json) },
    { "help", NULL, "this text", offsetof(struct ps, help) },
    { NULL, NULL, NULL, 0 },
};

/* "0:12", "1:02:03", "3 days" */
static const char *time_text(char out[static 24], uint64_t seconds)
{
    if (seconds < 3600)
        snprintf(out, 24, "%u:%02u", (unsigned)(seconds / 60), (unsigned)(seconds % 60));
    else if (seconds < 172800)
        snprintf(out, 24, "%u:%02u:%02u", (unsigned)(seconds / 3600), (unsigned)(seconds / 60 % 60),
                 (unsigned)(seconds % 60));
    else
        snprintf(out, 24, "%u days", (unsigned)(seconds / 86400));
    return out;
}

static const char *size_text(char out[static 24], uint64_t bytes)
{
    if (!bytes)
        snprintf(out, 24, "-");
    else if (bytes < (UINT64_C(1) << 30))
        snprintf(out, 24, "%.0f MiB", (double)bytes / 1048576.0);
    else
        snprintf(out, 24, "%.1f GiB", (double)bytes / 1073741824.0);
    return out;
}

struct sum {
    unsigned ranks, busy, gpus;
    uint64_t memory; /* bytes */
};

/* The kernel knows the memory of ranks that a status has asked for; that of this machine's
 * processes can be read here. */
static void sum_rows(struct sum *s, json_t *rows)
{
    json_t *row;
    size_t i;

    json_array_foreach (rows, i, row) {
        const char *state = json_string_value(json_object_get(row, "state"));
        const char *gpu = json_string_value(json_object_get(row, "gpu"));
        const json_int_t pid = json_integer_value(json_object_get(row, "pid"));
        uint64_t memory = (uint64_t)json_integer_value(json_object_get(row, "memory"));

        if (!memory && pid > 0 && process_memory((long)pid, &memory))
            json_object_set_new(row, "memory", json_integer((json_int_t)memory));
        s->ranks++;
        s->busy += state && strcmp(state, "running") == 0;
        s->memory += memory;
        for (const char *g = gpu; g && *g; g = strchr(g, ',') ? strchr(g, ',') + 1 : "")
            s->gpus++;
    }
}

/* A notebook's path as valid UTF-8. Owned by the caller; NULL: memory is out. */
static char *clean(const char *path)
{
    struct buf text = BUF_INIT;

    if (utf8_add_clean(&text, slice_text(path)) == 0 && buf_add_text(&text, "") == 0)
        return text.p;
    buf_release(&text);
    return NULL;
}

/* What the kernel says, with what can be seen from outside. name: the notebook's. */
static json_t *described(const struct running_kernel *k, const char *name)
{
    struct err why = { "" };
    json_t *reply = kernel_question(k, "cellspan_overview_request", "{}", "cellspan_overview_reply",
                                    ANSWER_NS, &why);
    json_t *one = reply ? reply : json_pack("{s:s}", "error", why.text);
    uint64_t memory = 0;

    (void)process_memory(k->pid, &memory);
    if (one)
        json_object_update_new(one,
                               json_pack("{s:i, s:s, s:I, s:I, s:s?}", "pid", (int)k->pid,
                                         "notebook", name, "seconds", (json_int_t)k->seconds,
                                         "memory", (json_int_t)memory, "connection_file", k->file));
    return one;
}

static void print_heading(void)
{
    printf("%-8s %-*s %-14s %-16s %-16s %-9s %-4s %s\n", "PID", SHOWN, "NOTEBOOK", "RANKS", "ON",
           "CELL", "MEMORY", "GPUS", "AGE");
}

/* The last SHOWN characters of a path, with blanks up to that width, and '?' for what would control
 * the terminal. */
static void print_name(const char *name)
{
    const struct slice path = slice_text(name);
    const size_t width = utf8_width(path);

    for (const char *c = name + (width > SHOWN ? utf8_offset(path, width - SHOWN) : 0); *c; c++)
        putchar((unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c);
    printf("%*s", width < SHOWN ? (int)(SHOWN - width) : 0, "");
}

static void print_row(const struct running_kernel *k, const char *name, json_t *one,
                      const struct sum *s)
{
    const json_t *cell = json_object_get(one, "cell");
    const char *on = json_string_value(json_object_get(json_object_get(one, "table"), "on"));
    char ranks[32], runs[64] = "-", age[24], memory[24], seconds[24];

    if (json_object_get(one, "error") || json_object_get(one, "ename")) /* an older version */
        snprintf(runs, sizeof runs, "no answer");
    else if (json_is_object(cell))
        snprintf(runs, sizeof runs, "In [%d] %s",
                 (int)json_integer_value(json_object_get(cell, "count")),
                 time_text(seconds, (uint64_t)json_number_value(json_object_get(cell, "seconds"))));
    else if (json_is_true(json_object_get(one, "home_runs")))
        snprintf(runs, sizeof runs, "at home");
    if (s->busy)
        snprintf(ranks, sizeof ranks, "%u (%u busy)", s->ranks, s->busy);
    else
        snprintf(ranks, sizeof ranks, "%u", s->ranks);
    printf("%-8ld ", (long)k->pid);
    print_name(name);
    printf(" %-14s %-16.16s %-16s %-9s %-4u %s\n", ranks, on ? on : "this machine", runs,
           size_text(memory, s->memory), s->gpus, time_text(age, k->seconds));
}

static int ps(bool json, struct err *err)
{
    struct kernels k = KERNELS_INIT;
    json_t *all = json_array();
    int rc = all ? kernels_find(&k, err) : err_set(err, "out of memory");

    for (size_t i = 0; rc == 0 && i < k.n; i++) {
        struct sum s = { 0 };
        char *name = clean(k.of[i].notebook);
        json_t *one = name ? described(&k.of[i], name) : NULL;
        json_t *table = json_object_get(one, "table");

        sum_rows(&s, json_object_get(table, "ranks"));
        sum_rows(&s, json_object_get(table, "beside"));
        if (!json && i == 0)
            print_heading();
        if (!json && one)
            print_row(&k.of[i], name, one, &s);
        if (!one || json_array_append_new(all, one))
            rc = err_set(err, "out of memory");
        free(name);
    }
    if (rc == 0 && json && json_dumpf(all, stdout, JSON_INDENT(1) | JSON_SORT_KEYS) == 0)
        putchar('\n');
    if (rc == 0 && !json && k.n == 0)
        puts("no kernel of cellspan's runs as this user");
    if (fflush(stdout) && rc == 0)
        rc = err_set(err, "the output can't be written: %s", strerror(errno));
    json_decref(all);
    kernels_release(&k);
    return rc;
}

int command_ps(int argc, char **argv)
{
    struct ps o = { false, false };
    struct err err = { "" };
    int rc = 2;

    if (cmdline_parse(ps_rows, argc, argv, NULL, &o, &err) == 0) {
        if (o.help) {
            puts(
                "usage: cellspan ps [--json]\n\n"
                "Lists what runs as this user on this machine: notebooks and `cellspan run`, their ranks, where\n"
                "these are, the cell that runs, memory and GPUs of the ranks, and the age.\n");
            cmdline_help(ps_rows, stdout);
            return 0;
        }
        rc = ps(o.json, &err) < 0 ? 1 : 0;
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
    if (option_line_write(&line, "ranks", some, n, err) == 0 && kernels_find(&k, err) == 0)
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

    if (kernels_find(&k, err) < 0 || !(one = kernels_named(&k, word, err))) {
        kernels_release(&k);
        return -1;
    }
    json_decref(kernel_question(one, "shutdown_request", "{\"restart\":false}", "shutdown_reply",
                                ANSWER_NS, &unanswered));
    /* the kernel ends its processes on all machines when it gets SIGTERM, too */
    if ((unanswered.text[0] || !ends(one, END_NS)) && !ends_by(one, SIGTERM) &&
        !ends_by(one, SIGKILL))
        rc = err_set(err, "%s: kernel %ld does not end", word, (long)one->pid);
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
