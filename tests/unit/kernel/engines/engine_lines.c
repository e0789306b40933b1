/* SPDX-License-Identifier: BSD-3-Clause */
/* What engines write: every line of docs/launchers.md, and lines that are not valid. */
#include <stdlib.h>

#include "kernel/engines/private.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static struct engine_line parse(const char *line)
{
    return engine_line_parse(slice_text(line));
}

static void lines_are_understood(void)
{
    struct engine_line s = parse("nodes 12");

    ok(s.kind == ENGINE_LINE_NODES && s.n == 12, "nodes 12");
    ok(!s.by_ranks, "their number does not depend on the ranks unless it says so");
    s = parse("nodes 2 ranks");
    ok(s.kind == ENGINE_LINE_NODES && s.n == 2 && s.by_ranks, "nodes 2 ranks");
    ok(!s.together, "and agents end one by one unless it says so");
    s = parse("nodes 2 together");
    ok(s.kind == ENGINE_LINE_NODES && s.together && !s.by_ranks, "nodes 2 together");
    s = parse("nodes 2 together ranks");
    ok(s.kind == ENGINE_LINE_NODES && s.n == 2 && s.together && s.by_ranks, "with ranks, too");
    s = parse("node 3 h4");
    ok(s.kind == ENGINE_LINE_NODE && s.n == 3 && slice_is(s.text, "h4") && s.slots == 0,
       "node 3 h4");
    s = parse("node 0 gpu-1.example.org 8");
    ok(s.kind == ENGINE_LINE_NODE && slice_is(s.text, "gpu-1.example.org") && s.slots == 8,
       "a node with slots");
    s = parse("node 3 again");
    ok(s.kind == ENGINE_LINE_AGAIN && s.n == 3, "node 3 again");
    s = parse("node 3 again 8");
    ok(s.kind == ENGINE_LINE_NODE && s.slots == 8, "with slots it is a name");
    s = parse("say job 17 waits: Resources \r");
    ok(s.kind == ENGINE_LINE_SAY && slice_is(s.text, "job 17 waits: Resources"),
       "say keeps the text, without blanks around it");
    s = parse("failed 2 h3: no route to host");
    ok(s.kind == ENGINE_LINE_FAILED && s.n == 2 && slice_is(s.text, "h3: no route to host"),
       "failed keeps its text");
    s = parse("gone 2 h3: it was restarted");
    ok(s.kind == ENGINE_LINE_GONE && s.n == 2 && slice_is(s.text, "h3: it was restarted"),
       "so does gone");
    s = parse("away 2");
    ok(s.kind == ENGINE_LINE_AWAY && s.n == 2, "away has none");
    s = parse("failed 2");
    ok(s.kind == ENGINE_LINE_FAILED && s.text.n == 0, "failed without a reason is failed");
    s = parse("contract 2");
    ok(s.kind == ENGINE_LINE_CONTRACT && s.n == 2, "contract 2");
    s = parse("end 30");
    ok(s.kind == ENGINE_LINE_END && s.n == 30, "end 30");
    s = parse("notice 2 120 spot: the price rose");
    ok(s.kind == ENGINE_LINE_NOTICE && s.n == 2 && s.seconds == 120 &&
           slice_is(s.text, "spot: the price rose"),
       "notice keeps its text");
    s = parse("notice 0 30");
    ok(s.kind == ENGINE_LINE_NOTICE && s.seconds == 30 && s.text.n == 0, "or has none");
    s = parse("ends 850");
    ok(s.kind == ENGINE_LINE_ENDS && s.seconds == 850, "ends 850");
    s = parse("  nodes\t4 ");
    ok(s.kind == ENGINE_LINE_NODES && s.n == 4, "blanks don't matter");
}

static void all_else_is_nonsense(void)
{
    static const char *const bad[] = {
        "",
        "nodes",
        "nodes 0",
        "nodes -1",
        "nodes 1 2",
        "nodes 1 rank",
        "nodes 1 ranks 2",
        "nodes 1 ranks ranks",
        "nodes 1 together 2",
        "nodes 65536",
        "nodes 1e3",
        "nodes 99999999999999999999",
        "node 1",
        "node x h1",
        "node 1 h1 x",
        "node 1 h1 2 3",
        "gone",
        "gone x",
        "away",
        "away x",
        "away 1 2",
        "contract",
        "contract 0",
        "contract 3",
        "contract 2 3",
        "failed",
        "failed x",
        "end",
        "end 0",
        "end 601",
        "end 1 2",
        "notice",
        "notice 1",
        "notice 1 soon",
        "ends",
        "ends soon",
        "ends 1 2",
        "NODES 2",
        "hello world",
        "node 1 \xff",
        "say \xc3",
        "nodes4",
        "\x01",
    };

    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        ok(parse(bad[k]).kind == ENGINE_LINE_NONSENSE, "nonsense: '%s'", bad[k]);
}

static void the_end_of_stderr_is_shown(void)
{
    struct tail tail = TAIL_INIT;
    struct buf shown = BUF_INIT;
    char line[64];
    int rc = 0;

    for (int k = 0; k < 100; k++) {
        snprintf(line, sizeof line, "line %d\n", k);
        rc |= tail_add(&tail, slice_text(line));
    }
    rc |= engine_errors(&tail, &shown);
    ok(rc == 0 && strncmp(shown.p, "line 52\n", 8) == 0 &&
           strcmp(shown.p + shown.n - 7, "line 99") == 0,
       "of 100 lines the last 48");
    buf_clear(&shown);
    tail_clear(&tail);
    rc |= tail_add(&tail, slice_of("a\x1b[31m\xff\0b\n \n", 12));
    rc |= engine_errors(&tail, &shown);
    ok(rc == 0 && strcmp(shown.p, "a [31m\xef\xbf\xbd b") == 0, "what is shown is text");
    buf_release(&shown);
    alloc_fail_at(0);
    ok(engine_errors(&tail, &shown) < 0, "a failed allocation is said");
    alloc_fail_at(-1);
    tail_release(&tail);
}

int main(void)
{
    lines_are_understood();
    all_else_is_nonsense();
    the_end_of_stderr_is_shown();
    return plan_done();
}
