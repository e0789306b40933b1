/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent, a zygote and its ranks, with real processes; at the end no process is left. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "protocol/span_fields.h"
#include "tests/unit/agent/double.h"
#include "tests/unit/agent/fake.h"
#include "tests/unit/agent/must.h"
#include "tests/unit/tap.h"

#define WINDOW (1u << 20)

static bool cause_says(const struct kernel *k, const char *text)
{
    const struct slice s = k->last.v[F_EXITED_CAUSE].s, e = k->last.v[F_EXITED_STDERR].s;

    return memmem(s.p, s.n, text, strlen(text)) || memmem(e.p, e.n, text, strlen(text));
}

/* The text of a story, without where it was cut. */
static void text_of(const char *story, char *out, size_t size)
{
    bool in = false;
    size_t n = 0;

    for (; *story && n + 1 < size; story++)
        if (*story == '<' || *story == '>')
            in = *story == '<';
        else if (in)
            out[n++] = *story;
    out[n] = '\0';
}

/* Where a rank's text is cut depends on when it was written: on a busy machine some tries may be
 * needed. What it says is the same each time. */
static void is_told(struct kernel *k, const char *script, const char *story, const char *name)
{
    char want[256], got[256];
    bool same = true;

    text_of(story, want, sizeof want);
    for (int i = 0; i < 50; i++) {
        kernel_forget(k);
        kernel_run(k, 2, 4, script);
        if (!kernel_until(k, SPAN_DONE, 2))
            break;
        text_of(k->story.p, got, sizeof got);
        same = same && strcmp(got, want) == 0;
        if (!same || strcmp(k->story.p, story) == 0)
            break;
    }
    ok(same, "%s: all its text comes", name);
    is_text(k->story.p, story, "%s", name);
}

static void lines_are_whole(struct kernel *k)
{
    is_told(k, "out a\nsleep 30\nout b\\nc\nsleep 30\nout d\\n", "1<ab\n>1<cd\n>[DONE]",
            "torn writes become whole lines");
    is_told(k, "out x\nerr y", "1~<x>2~<y>[DONE]",
            "unfinished lines leave before the end of the cell");
    is_told(k, "out wait\nsleep 500\nout ed\\n", "1~<wait>1<ed\n>[DONE]",
            "an unfinished line is not held for long");
    is_told(k, "out \\r1%\nsleep 20\nout \\r2%\nsleep 20\nout \\r3%\nsleep 20\nout \\n",
            "1%<\r1%\r>1<2%\r3%\n>[DONE]", "a progress bar's states leave now and then");
}

static void broadcast_reaches_all(struct kernel *k)
{
    const uint32_t both[] = { 2, 3 };
    struct span m = { .kind = SPAN_RUN, .cell = 9 };

    m.v[F_RUN_CODE].s = slice_text("out hi\\n");
    kernel_send(k, both, 2, &m);
    kernel_forget(k);
    ok(kernel_until(k, SPAN_DONE, 0) && kernel_until(k, SPAN_DONE, 0),
       "one message reaches two ranks");
}

static void connections_are_cut(struct kernel *k)
{
    const uint32_t both[] = { 2, 3 };
    const struct span ask = { .kind = SPAN_PORT, .cell = 77 }, cut = { .kind = SPAN_CUT_RANKS };
    char script[64];
    unsigned port;

    kernel_send(k, NULL, 0, &ask);
    (void)kernel_until(k, SPAN_PORT, 0);
    port = (unsigned)k->last.v[F_PORT_PORT].u64;
    snprintf(script, sizeof script, "listen %u\ncut", port);
    kernel_run(k, 2, 5, script);
    (void)kernel_until(k, SPAN_LINES, 2);
    kernel_forget(k);
    snprintf(script, sizeof script, "connect %u\ncut", port);
    kernel_run(k, 3, 5, script);
    while (!kernel_told(k, "1<connected\n>1<connected\n>") && kernel_until(k, SPAN_LINES, 0))
        ;
    kernel_forget(k);
    kernel_send(k, both, 2, &cut);
    ok(kernel_until(k, SPAN_DONE, 0) && kernel_until(k, SPAN_DONE, 0), "CUT_RANKS tells both ends");
    ok(kernel_told(k, "1<cut 1\n>") &&
           strlen(k->story.p) == strlen("1<cut 1\n>[DONE]1<cut 1\n>[DONE]"),
       "of the one connection between them: %s", k->story.p);
}

static void death_takes_children_along(struct kernel *k)
{
    pid_t child;

    kernel_forget(k);
    kernel_run(k, 3, 6, "child\nkill 6");
    ok(kernel_until(k, SPAN_EXITED, 3) && k->last.v[F_EXITED_CODE].u64 == EXITED_SIGNAL &&
           k->last.v[F_EXITED_STATUS].u64 == SIGABRT,
       "a forked rank's signal is known");
    ok(kernel_told(k, "1<"), "its output came first");
    child = (pid_t)atol(strchr(k->story.p, '<') + 1);
    ok(child > 1 && is_gone(child), "its process group is gone");
    kernel_run(k, 2, 7, "out still here\\n");
    ok(kernel_until(k, SPAN_DONE, 2), "the other rank lives");
}

static void zygote_failures_are_told(const char *self)
{
    struct kernel k;

    setenv("FAKE_ZYGOTE_DIES", "1", 1);
    kernel_start(&k, self, false, WINDOW);
    kernel_start_ranks(&k, self, 2, "{}");
    ok(kernel_until(&k, SPAN_EXITED, 0) && k.last.v[F_EXITED_CODE].u64 == EXITED_UNKNOWN &&
           cause_says(&k, "nothing works"),
       "a zygote that fails ends its ranks, with its words");
    ok(kernel_until(&k, SPAN_EXITED, 0), "each of them");
    unsetenv("FAKE_ZYGOTE_DIES");
    kernel_start_ranks(&k, "/nowhere/python", 1, "{}");
    ok(kernel_until(&k, SPAN_EXITED, 2) && cause_says(&k, "/nowhere/python"),
       "a python that isn't there is named");
    is_int(kernel_end(&k), 0, "the agent ends");
}

static void deaths_before_ready_are_told(const char *self, bool says_pids)
{
    struct kernel k;

    setenv("FAKE_RANK_DIES", "1", 1);
    if (!says_pids)
        setenv("FAKE_SAYS_NO_PIDS", "1", 1);
    kernel_start(&k, self, false, WINDOW);
    kernel_start_ranks(&k, self, 2, "{}");
    ok(kernel_until(&k, SPAN_EXITED, 0) && k.last.v[F_EXITED_CODE].u64 == EXITED_UNKNOWN &&
           kernel_until(&k, SPAN_EXITED, 0),
       "ranks that die before READY are told (%s their pids)", says_pids ? "with" : "without");
    unsetenv("FAKE_RANK_DIES");
    is_int(kernel_end(&k), 0, "the agent ends");
    if (!says_pids) {
        kernel_start(&k, self, false, WINDOW);
        kernel_ranks(&k, self, 3);
        kernel_run(&k, 4, 2, "kill 9");
        ok(kernel_until(&k, SPAN_EXITED, 4) && k.last.v[F_EXITED_STATUS].u64 == 9,
           "READY's pid will do");
        is_int(kernel_end(&k), 0, "the agent ends");
    }
    unsetenv("FAKE_SAYS_NO_PIDS");
}

/* The end of stdin, SIGTERM, QUIT; SIGKILL of the agent itself. */
static void nobody_is_left(const char *self, int how)
{
    static const char *const names[] = { "the end of stdin", "SIGTERM", "QUIT" };
    pid_t daemon, rank, child;
    struct kernel k;

    kernel_start(&k, self, true, WINDOW);
    kernel_ranks(&k, self, 2);
    rank = (pid_t)k.last.v[F_READY_PID].u64;
    kernel_forget(&k);
    kernel_run(&k, 2, 2, "daemon\nsleep 0");
    (void)kernel_until(&k, SPAN_LINES, 2);
    daemon = (pid_t)atol(strchr(k.story.p, '<') + 1);
    kernel_forget(&k);
    kernel_run(&k, 1, 2, "child\nsleep 0");
    (void)kernel_until(&k, SPAN_LINES, 1);
    child = (pid_t)atol(strchr(k.story.p, '<') + 1);
    if (how == 1)
        kill(k.agent, SIGTERM);
    if (how == 2)
        kernel_say(&k, 0, SPAN_QUIT);
    is_int(how == 0 ? kernel_end(&k) : kernel_wait(&k), 0, "the agent ends by %s", names[how]);
    ok(is_gone(rank) && is_gone(child), "and its workers are gone");
    ok(is_gone(daemon), "even what left its session");
}

static void many_start_at_once(const char *self)
{
    struct kernel k;

    kernel_start(&k, self, false, WINDOW);
    kernel_ranks(&k, self, 48);
    ok(true, "48 ranks come up");
    is_int(kernel_end(&k), 0, "and go");
}

int main(int argc, char **argv)
{
    struct kernel k;

    if (fake_is_wanted(argc, argv))
        return fake_main(argc, argv);
    kernel_start(&k, argv[0], false, WINDOW);
    kernel_ranks(&k, argv[0], 2);
    lines_are_whole(&k);
    broadcast_reaches_all(&k);
    connections_are_cut(&k);
    death_takes_children_along(&k);
    is_int(kernel_end(&k), 0, "the agent ends with its stdin");
    zygote_failures_are_told(argv[0]);
    deaths_before_ready_are_told(argv[0], true);
    deaths_before_ready_are_told(argv[0], false);
    for (int how = 0; how < 3; how++)
        nobody_is_left(argv[0], how);
    many_start_at_once(argv[0]);
    return plan_done();
}
