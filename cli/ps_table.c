/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/ps_table.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"
#include "base/utf8.h"

#define SHOWN           44                  /* characters of a notebook's path in the table */
#define RANK_GPUS_MAX   512u                /* no machine has more */
#define RANK_MEMORY_MAX (UINT64_C(1) << 50) /* bytes */

/* ---- cells of a table ---- */

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

/* How many bytes at c are a character that would control the terminal, or change the direction of
 * what follows it; 0: it is another one. c is valid UTF-8. */
static unsigned controls(const char *c)
{
    const unsigned char *b = (const unsigned char *)c;

    if (b[0] < ' ' || b[0] == 0x7f)
        return 1;
    if (b[0] == 0xc2 && b[1] < 0xa0) /* U+0080 to U+009F */
        return 2;
    if (b[0] == 0xd8 && b[1] == 0x9c) /* U+061C */
        return 2;
    if (b[0] == 0xe2 && b[1] == 0x80 &&
        ((b[2] >= 0x8e && b[2] <= 0x8f) || (b[2] >= 0xa8 && b[2] <= 0xae)))
        return 3; /* U+200E and U+200F, U+2028 to U+202E */
    if (b[0] == 0xe2 && b[1] == 0x81 && b[2] >= 0xa6 && b[2] <= 0xa9) /* U+2066 to U+2069 */
        return 3;
    return 0;
}

/* The text, with '?' for such characters: users can name what root looks at. */
static void print_text(const char *text)
{
    while (*text) {
        const unsigned n = controls(text);

        putchar(n ? '?' : (unsigned char)*text);
        text += n ? n : 1;
    }
}

/* The last `width` characters of it, with blanks up to that width. */
static void print_end(const char *text, size_t width)
{
    const struct slice whole = slice_text(text);
    const size_t n = utf8_width(whole);

    print_text(text + (n > width ? utf8_offset(whole, n - width) : 0));
    printf("%*s", n < width ? (int)(width - n) : 0, "");
}

/* The first ones. */
static void print_start(const char *text, size_t width)
{
    const size_t n = utf8_width(slice_text(text));
    char *cut = n > width ? strndup(text, utf8_offset(slice_text(text), width)) : NULL;

    print_text(n > width ? (cut ? cut : "") : text);
    printf("%*s", n < width ? (int)(width - n) : 0, "");
    free(cut);
}

const char *ps_table_user(char out[static 33], uid_t uid)
{
    const struct passwd *p = getpwuid(uid);

    if (p)
        snprintf(out, 33, "%s", p->pw_name);
    else
        snprintf(out, 33, "%lu", (unsigned long)uid);
    return out;
}

/* Seconds that a kernel or a file has told. */
static const char *told_time(char out[static 24], double seconds)
{
    return seconds > 0 && seconds < 1e12 ? time_text(out, (uint64_t)seconds) : "-";
}

/* ---- notebooks ---- */

/* The pages that are no file's and nobody's shared memory: of /proc/PID/statm, the second number
 * without the third. */
static bool own_memory(long pid, uint64_t *bytes)
{
    unsigned long long resident, shared;
    char path[64], text[128];

    snprintf(path, sizeof path, "/proc/%ld/statm", pid);
    text[file_start(path, text, sizeof text - 1).n] = '\0';
    if (sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || resident < shared)
        return false;
    *bytes = (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

bool ps_table_memory(long pid, bool quick, uint64_t *bytes)
{
    return quick ? own_memory(pid, bytes) : process_memory(pid, bytes);
}

/* The kernel knows the memory of ranks, and which GPUs are theirs, once a status has asked for it.
 */
static void complete(json_t *rows, bool quick)
{
    json_t *row;
    uint64_t memory;
    size_t i;

    json_array_foreach (rows, i, row) {
        const long pid = (long)json_integer_value(json_object_get(row, "pid"));

        if (pid > 0 && !json_integer_value(json_object_get(row, "memory")) &&
            ps_table_memory(pid, quick, &memory))
            json_object_set_new(row, "memory", json_integer((json_int_t)memory));
    }
}

void ps_table_complete(json_t *said, bool quick)
{
    json_t *table = json_object_get(said, "table");

    complete(json_object_get(table, "ranks"), quick);
    complete(json_object_get(table, "beside"), quick);
}

/* Of a number that a kernel has told: not negative, and at most this. */
static uint64_t told_number(const json_t *number, uint64_t most)
{
    const json_int_t n = json_integer_value(number);

    return n < 0 ? 0 : (uint64_t)n < most ? (uint64_t)n : most;
}

/* How many GPUs this text names. */
static unsigned count_gpus(const char *text)
{
    unsigned n = 0;

    for (const char *g = text; *g && n < RANK_GPUS_MAX; n++)
        g = strchr(g, ',') ? strchr(g, ',') + 1 : "";
    return n;
}

/* gpus: how many each rank has. */
static void sum_rows(struct ps_sum *s, json_t *rows, unsigned gpus)
{
    json_t *row;
    size_t i;

    json_array_foreach (rows, i, row) {
        const char *state = json_string_value(json_object_get(row, "state"));
        const char *gpu = json_string_value(json_object_get(row, "gpu"));
        const json_int_t pid = json_integer_value(json_object_get(row, "pid"));
        const bool parked = state && strcmp(state, "parked") == 0;

        s->ranks++;
        s->busy += state && strcmp(state, "running") == 0;
        s->parked += parked;
        s->memory += told_number(json_object_get(row, "memory"), RANK_MEMORY_MAX);
        if (!parked)
            s->gpus += gpu ? count_gpus(gpu) : pid > 0 ? gpus : 0;
    }
}

/* Ranks beside the group use its GPUs. */
void ps_table_sum(struct ps_sum *s, const json_t *content)
{
    json_t *table = json_object_get(content, "table");

    sum_rows(s, json_object_get(table, "ranks"),
             (unsigned)told_number(json_object_get(content, "gpus"), RANK_GPUS_MAX));
    sum_rows(s, json_object_get(table, "beside"), 0);
}

static void print_heading(bool users)
{
    printf("%-8s ", "PID");
    if (users)
        printf("%-12s ", "USER");
    printf("%-*s %-14s %-16s %-16s %-9s %-4s ", SHOWN, "NOTEBOOK", "RANKS", "ON", "CELL", "MEMORY",
           "GPUS");
    puts(users ? "IDLE      AGE" : "AGE");
}

bool ps_table_answered(const json_t *content)
{
    return !json_object_get(content, "error") && !json_object_get(content, "ename");
}

/* What it runs: a cell's number and since when, "at home", "-". */
static const char *runs_text(char out[static 64], const json_t *content)
{
    const json_t *cell = json_object_get(content, "cell");
    char seconds[24];

    if (json_is_false(json_object_get(content, "asked")))
        return "not asked";
    if (!ps_table_answered(content)) /* or it is of an older version */
        return "no answer";
    if (json_is_object(cell))
        snprintf(out, 64, "In [%u] %s",
                 (unsigned)told_number(json_object_get(cell, "count"), INT_MAX),
                 told_time(seconds, json_number_value(json_object_get(cell, "seconds")) + 1e-9));
    else
        snprintf(out, 64, "%s",
                 json_is_true(json_object_get(content, "home_runs")) ? "at home" : "-");
    return out;
}

static void print_row(const struct running_kernel *k, const struct overview *o, bool users)
{
    const char *on = json_string_value(json_object_get(json_object_get(o->content, "table"), "on"));
    char ranks[32], runs[64], age[24], memory[24], name[33], idle[24];
    struct ps_sum s = { 0 };

    ps_table_sum(&s, o->content);
    if (s.busy)
        snprintf(ranks, sizeof ranks, "%u (%u busy)", s.ranks, s.busy);
    else if (s.parked == s.ranks && s.ranks)
        snprintf(ranks, sizeof ranks, "%u (parked)", s.ranks);
    else if (s.parked)
        snprintf(ranks, sizeof ranks, "%u (%u parked)", s.ranks, s.parked);
    else
        snprintf(ranks, sizeof ranks, "%u", s.ranks);
    printf("%-8ld ", (long)k->pid);
    if (users) {
        print_start(ps_table_user(name, k->uid), 12);
        putchar(' ');
    }
    print_end(o->name, SHOWN);
    printf(" %-14s ", ranks);
    print_start(on ? on : "this machine", 16);
    printf(" %-16s %-9s %-4u ", runs_text(runs, o->content), size_text(memory, s.memory), s.gpus);
    if (users)
        printf("%-9s ", told_time(idle, json_number_value(json_object_get(o->content, "idle"))));
    puts(time_text(age, k->seconds));
}

void ps_table_notebooks(const struct kernels *k, const struct overview *of, bool users)
{
    char name[33];

    if (k->n)
        print_heading(users);
    for (size_t i = 0; i < k->n; i++)
        print_row(&k->of[i], &of[i], users);
    for (size_t i = 0; i < k->n_more; i++) {
        printf("and %zu more of ", k->more[i].n);
        print_text(ps_table_user(name, k->more[i].owner));
        putchar('\n');
    }
}

/* ---- cards ---- */

size_t ps_table_kernel_of(const struct kernels *k, long pid)
{
    const pid_t parent = pid > 0 ? orphans_parent((pid_t)pid) : 0;
    size_t i = 0;

    while (i < k->n && k->of[i].pid != parent)
        i++;
    return i;
}

static void print_use(const json_t *card)
{
    const json_t *use = json_object_get(card, "use"), *total = json_object_get(card, "total");
    const uint64_t used = (uint64_t)json_integer_value(json_object_get(card, "used"));
    char percent[16] = "-", memory[64] = "-", of[24], in_all[24];

    if (json_is_integer(use))
        snprintf(percent, sizeof percent, "%d %%", (int)json_integer_value(use));
    if (json_is_integer(total))
        snprintf(memory, sizeof memory, "%s of %s", used ? size_text(of, used) : "0",
                 size_text(in_all, (uint64_t)json_integer_value(total)));
    printf("%-6s %-22s ", percent, memory);
}

static void print_times(const json_t *since, double idle)
{
    const double age = json_is_integer(since) ? (double)(time(NULL) - json_integer_value(since))
                                              : 0;
    char held[24], rests[24];

    printf("%-9s %-9s ", told_time(held, json_is_integer(since) ? age + 0.001 : 0),
           told_time(rests, idle));
}

/* Who uses it, with or without a lease, as the driver says. */
static void print_users(const json_t *others)
{
    const json_t *one;
    size_t i;

    json_array_foreach (others, i, one) {
        const char *who = json_string_value(json_object_get(one, "who"));

        printf("%s", i ? ", " : "; used by ");
        if (who && *who)
            print_text(who);
        printf("%spid %ld", who && *who ? ", " : "",
               (long)json_integer_value(json_object_get(one, "pid")));
    }
}

static void print_holder(const json_t *holder, const struct kernels *k, const struct overview *of)
{
    const long pid = (long)json_integer_value(json_object_get(holder, "pid"));
    const json_t *uid = json_object_get(holder, "uid");
    const char *comm = json_string_value(json_object_get(holder, "comm"));
    const size_t i = ps_table_kernel_of(k, pid);
    char name[33] = "?";

    if (json_is_integer(uid))
        (void)ps_table_user(name, (uid_t)json_integer_value(uid));
    print_text(name);
    if (i < k->n) {
        printf(", %ld ", (long)k->of[i].pid);
        print_text(of[i].name);
    } else {
        printf(", pid %ld ", pid);
        print_text(comm ? comm : "");
    }
}

static void print_card(const json_t *card, const struct kernels *k, const struct overview *of)
{
    const json_t *held = json_object_get(card, "held"), *holders = json_object_get(held, "holders");
    const long first = (long)json_integer_value(json_object_get(json_array_get(holders, 0), "pid"));
    const size_t at = ps_table_kernel_of(k, first);
    const json_t *one;
    size_t i;

    printf("%-5s ", json_string_value(json_object_get(card, "label")));
    print_start(json_string_length(json_object_get(card, "name"))
                    ? json_string_value(json_object_get(card, "name"))
                    : json_string_value(json_object_get(card, "uuid")),
                24);
    putchar(' ');
    print_use(card);
    print_times(json_object_get(held, "since"),
                at < k->n ? json_number_value(json_object_get(of[at].content, "idle")) : 0);
    json_array_foreach (holders, i, one) {
        printf("%s", i ? "; " : "");
        print_holder(one, k, of);
    }
    if (!json_is_object(held)) {
        printf("nobody");
    } else if (!json_array_size(holders)) {
        printf("its lease says: ");
        print_text(json_string_value(json_object_get(held, "said")));
    }
    if (json_is_true(json_object_get(held, "cut")))
        printf("; there are too many processes or descriptors to look at all");
    print_users(json_object_get(card, "others"));
    putchar('\n');
}

void ps_table_cards(const json_t *cards, const struct kernels *k, const struct overview *of)
{
    const json_t *one;
    size_t i;

    if (!json_array_size(cards)) {
        puts("no GPU of this machine is known");
        return;
    }
    printf("%-5s %-24s %-6s %-22s %-9s %-9s %s\n", "GPU", "NAME", "USE", "MEMORY", "SINCE", "IDLE",
           "HELD BY");
    json_array_foreach (cards, i, one)
        print_card(one, k, of);
}
