/* SPDX-License-Identifier: BSD-3-Clause */
/* scenes.c - what a notebook with so many ranks must do, under any load of the machine: no time is
 * judged; limits only end a hang. Agent N-1 has a process of its own, which can be frozen. Agent 2
 * is a parent in the tree if there are more than 34, or more than 10 for the narrow kernel. */
#include "tests/sim/scenes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rank_set.h"
#include "tests/unit/tap.h"

#define LIMIT_S 180u
/* more agents may need longer to connect again than a kernel normally waits for one, where they
 * share a few processors */
#define MANY 200u

struct scene {
    struct driver *d;
    unsigned agents, ranks;
    struct outcome o; /* of the last cell */
};

static void run(struct scene *s, const char *code, unsigned interrupt_ms)
{
    outcome_release(&s->o);
    driver_cell(s->d, code, interrupt_ms, LIMIT_S, &s->o);
    if (!s->o.answered)
        diag("no answer to: %s", code);
    diag("%.2f s, %.2f s of the kernel's processor time", s->o.seconds, s->o.cpu);
}

static bool good(const struct scene *s)
{
    if (s->o.answered && !s->o.ok)
        diag("%s: %s", s->o.ename, s->o.evalue);
    return s->o.answered && s->o.ok;
}

static bool failed(const struct scene *s)
{
    return s->o.answered && !s->o.ok;
}

static bool says(const struct scene *s, const char *text)
{
    if (strstr(s->o.evalue, text) || (s->o.errs.p && strstr(s->o.errs.p, text)))
        return true;
    diag("%s: %.300s", s->o.ename, s->o.evalue);
    return false;
}

/* ---- lines ---- */

/* What came of lines that end in `text`: how many lines there are, and of how many ranks they are
 * in all. */
struct count {
    unsigned lines;
    unsigned long ranks, strange;
};

/* "[0-7,9] text": of how many; 0: it has no label. */
static unsigned label_size(const char *line, size_t n, unsigned world, const char **rest)
{
    const char *end = n && line[0] == '[' ? memchr(line, ']', n) : NULL;
    struct ranks who = RANKS_INIT;
    unsigned size = 0;
    char *label;

    *rest = line;
    if (!end || end + 1 >= line + n || end[1] != ' ' ||
        !(label = strndup(line + 1, (size_t)(end - line - 1))))
        return 0;
    if (ranks_parse(&who, label, world, NULL) == 0)
        size = ranks_count(&who);
    ranks_release(&who);
    free(label);
    *rest = end + 2;
    return size;
}

static struct count count_lines(const struct scene *s, const char *text)
{
    struct count c = { 0, 0, 0 };
    const char *at = s->o.out.p ? s->o.out.p : "", *end;

    for (; (end = strchr(at, '\n')); at = end + 1) {
        const char *rest;
        const unsigned size = label_size(at, (size_t)(end - at), s->ranks, &rest);

        if (size && (size_t)(end - rest) == strlen(text) && memcmp(rest, text, strlen(text)) == 0) {
            c.lines++;
            c.ranks += size;
        } else {
            c.strange++;
        }
    }
    return c;
}

/* ---- scenes ---- */

static void start(struct scene *s)
{
    char code[128];

    snprintf(code, sizeof code, "%%%%distribute -n %u --on sim:%u,alone=%u\npass\n", s->ranks,
             s->agents, s->agents - 1);
    run(s, code, 0);
    ok(good(s), "a cell runs on %u ranks of %u machines", s->ranks, s->agents);
    run(s, "%%distribute\npass\n", 0);
    ok(good(s) && s->o.out.n == 0 && s->o.errs.n == 0, "and once more, and nothing is said");
}

/* Twins have to come within 100 ms: where the machine is too busy for that, another cell may be
 * luckier. */
static void lines_fold(struct scene *s)
{
    struct count c = { s->ranks, 0, 0 };
    bool all = true;

    for (unsigned tries = 0; tries < 10 && all && c.lines >= s->ranks; tries++) {
        run(s, "%%distribute\nprint 100 10 epoch 1, loss 0.25\n", 0);
        c = count_lines(s, "epoch 1, loss 0.25");
        all = good(s) && c.ranks == 100ul * s->ranks && c.strange == 0;
        diag("%lu lines are shown as %u", c.ranks, c.lines);
    }
    ok(all, "100 equal lines of each: none of %lu is lost", 100ul * s->ranks);
    ok(c.lines >= 100 && c.lines < s->ranks, "they are folded");
}

static void lines_differ(struct scene *s)
{
    unsigned found = 0;
    char line[64];
    const char *at;

    run(s, "%%distribute\nprint 1 I am {rank}.\n", 0);
    at = s->o.out.p ? s->o.out.p : "";
    for (unsigned r = 0; r < s->ranks; r++) {
        snprintf(line, sizeof line, "[%u] I am %u.\n", r, r);
        found += strstr(at, line) != NULL;
    }
    ok(good(s) && found == s->ranks, "lines that differ come with their rank's label, each");
}

/* More than a window: the rank has to wait for credit. */
static void lines_many(struct scene *s)
{
    struct count c;

    run(s, "%%distribute\nrank 1: print 300000 500 abcdefghijklmnopqrstuvwxyz0123456789...\n", 0);
    c = count_lines(s, "abcdefghijklmnopqrstuvwxyz0123456789...");
    ok(good(s) && c.ranks == 300000 && c.strange == 0,
       "12 MB of one rank, more than may be on the way: all 300000 lines");
}

static void slow_one(struct scene *s)
{
    struct count c;

    run(s, "%%distribute\nrank 5: sleep 2500\nprint 1 done\n", 0);
    c = count_lines(s, "done");
    ok(good(s) && c.ranks == s->ranks && c.strange == 0,
       "a slow one is waited for, and its line comes, too");
    ok(s->o.seconds >= 2.5, "as long as it takes");
}

static void one_fails(struct scene *s)
{
    run(s, "%%distribute\nrank 7: fail boom\nhang\n", 0);
    ok(failed(s) && strcmp(s->o.ename, "RuntimeError") == 0 && says(s, "boom"),
       "one fails, and all others are ended");
    run(s, "%%distribute\npass\n", 0);
    ok(good(s), "the next cell runs");
}

static void one_dies(struct scene *s)
{
    run(s, "%%distribute\nrank 9: exit 3\nhang\n", 0);
    ok(failed(s) && says(s, "rank 9"),
       "a rank's process ends: it is named, and all others are ended");
    run(s, "%%distribute\npass\n", 0);
    ok(good(s) && says(s, "rank 9 is new"), "the next cell starts it again, and says so");
}

static void interrupted(struct scene *s)
{
    run(s, "%%distribute\nhang\n", 500);
    ok(failed(s) && strcmp(s->o.ename, "KeyboardInterrupt") == 0, "an interrupt ends all");
    run(s, "%%distribute\npass\n", 0);
    ok(good(s), "the next cell runs after it");
}

/* All at once, also those between agents: each agent connects to the kernel again. */
static void connections_end(struct scene *s)
{
    struct count c;

    driver_cut(s->d);
    run(s, "%%distribute\npass\n", 0);
    ok(good(s) && s->o.errs.n == 0, "all connections end at once, and the next cell runs: %.2f s",
       s->o.seconds);
    driver_cut_during(s->d, 1000, 3);
    run(s,
        "%%distribute\nprint 40 1 tick\nsleep 1500\nprint 40 1 tick\nsleep 2500\nprint 40 1 tick\n",
        0);
    c = count_lines(s, "tick");
    ok(good(s) && c.ranks == 120ul * s->ranks && c.strange == 0 && s->o.errs.n == 0,
       "three times while all print: none of %lu lines is lost, none comes twice (%lu)",
       120ul * s->ranks, c.ranks);
}

/* A machine in the middle of the tree: those below connect to the kernel themselves. */
static void parent_dies(struct scene *s)
{
    run(s, "%%distribute\nnode 2: agent exit\nhang\n", 0);
    ok(failed(s) && says(s, "rank 16 on sim2 is gone") && !strstr(s->o.evalue, "by way of"),
       "an agent ends: its machine is named, and none of those below it");
    run(s, "%%distribute\npass\n", 0);
    ok(good(s), "the next cell runs, on machines that are there");
}

static void one_freezes(struct scene *s)
{
    char code[128], first[32];

    snprintf(code, sizeof code, "%%%%distribute\nnode %u: agent freeze\nhang\n", s->agents - 1);
    snprintf(first, sizeof first, "sim%u", s->agents - 1);
    run(s, code, 0);
    ok(failed(s) && says(s, first),
       "a machine that says nothing any more is named when its time is over");
    run(s, "%%distribute\npass\n", 0);
    ok(good(s), "the next cell runs without it");
}

int scenes_run(const struct driver_to *to, unsigned agents)
{
    struct scene s = { .agents = agents, .ranks = agents * SCENE_RANKS };
    struct driver_to patient = *to;
    struct err err = { "" };
    unsigned left;

    if (agents < 3) {
        fprintf(stderr, "cellspan-sim: three agents are the fewest to be tested with\n");
        return 2;
    }
    if (agents > MANY)
        patient.heartbeat = "60";
    s.d = driver_start(&patient, &err);
    if (!ok(s.d != NULL, "a kernel starts: %s", err.text))
        return plan_done();
    start(&s);
    lines_fold(&s);
    lines_differ(&s);
    lines_many(&s);
    slow_one(&s);
    one_fails(&s);
    one_dies(&s);
    interrupted(&s);
    parent_dies(&s);
    connections_end(&s);
    one_freezes(&s);
    outcome_release(&s.o);
    left = driver_stop(s.d);
    ok(left == 0, "nobody is left of them (%u)", left);
    return plan_done();
}
