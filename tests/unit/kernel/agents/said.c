/* What engines write: every line of docs/launchers.md, and all that is none. */
#include <stdlib.h>

#include "kernel/agents/said.h"
#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

static struct said parse(const char *line)
{
    return said_parse(slice_text(line));
}

static void lines_are_understood(void)
{
    struct said s = parse("nodes 12");

    ok(s.kind == SAID_NODES && s.n == 12, "nodes 12");
    s = parse("node 3 h4");
    ok(s.kind == SAID_NODE && s.n == 3 && slice_is(s.text, "h4") && s.slots == 0, "node 3 h4");
    s = parse("node 0 gpu-1.example.org 8");
    ok(s.kind == SAID_NODE && slice_is(s.text, "gpu-1.example.org") && s.slots == 8,
       "a node with slots");
    s = parse("say job 17 waits: Resources \r");
    ok(s.kind == SAID_SAY && slice_is(s.text, "job 17 waits: Resources"),
       "say keeps the text, without blanks around it");
    s = parse("failed 2 h3: no route to host");
    ok(s.kind == SAID_FAILED && s.n == 2 && slice_is(s.text, "h3: no route to host"),
       "failed keeps its text");
    s = parse("failed 2");
    ok(s.kind == SAID_FAILED && s.text.n == 0, "failed without a reason is failed");
    s = parse("  nodes\t4 ");
    ok(s.kind == SAID_NODES && s.n == 4, "blanks don't matter");
}

static void all_else_is_nonsense(void)
{
    static const char *const bad[] = {
        "",
        "nodes",
        "nodes 0",
        "nodes -1",
        "nodes 1 2",
        "nodes 65536",
        "nodes 1e3",
        "nodes 99999999999999999999",
        "node 1",
        "node x h1",
        "node 1 h1 x",
        "node 1 h1 2 3",
        "failed",
        "failed x",
        "NODES 2",
        "hello world",
        "node 1 \xff",
        "say \xc3",
        "nodes4",
        "\x01",
    };

    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        ok(parse(bad[k]).kind == SAID_NONSENSE, "nonsense: '%s'", bad[k]);
}

struct heard {
    char text[64][16];
    size_t size[64];
    unsigned n;
};

static void hear(void *arg, struct slice line)
{
    struct heard *h = arg;

    h->size[h->n] = line.n;
    snprintf(h->text[h->n++], sizeof h->text[0], "%.*s", SLICE_ARG(line));
}

static void torn_reads_make_whole_lines(void)
{
    const char *text = "nodes 2\nnode 0 a\n\nsay hi";

    for (size_t cut = 0; cut <= strlen(text); cut++) {
        struct said_lines l = SAID_LINES_INIT;
        struct heard h = { .n = 0 };
        int rc = said_lines_add(&l, slice_of(text, cut), hear, &h);

        rc |= said_lines_add(&l, slice_text(text + cut), hear, &h);
        said_lines_end(&l, hear, &h);
        ok(rc == 0 && h.n == 4 && strcmp(h.text[0], "nodes 2") == 0 &&
               strcmp(h.text[1], "node 0 a") == 0 && h.size[2] == 0 &&
               strcmp(h.text[3], "say hi") == 0,
           "cut at %zu", cut);
        said_lines_release(&l);
    }
}

static void a_line_without_end_is_cut(void)
{
    struct said_lines l = SAID_LINES_INIT;
    struct heard h = { .n = 0 };
    char much[1000];
    int rc = 0;

    memset(much, 'x', sizeof much);
    for (int k = 0; k < 100; k++)
        rc |= said_lines_add(&l, slice_of(much, sizeof much), hear, &h);
    rc |= said_lines_add(&l, slice_text("\nnodes 1\n"), hear, &h);
    ok(rc == 0 && h.n == 2 && h.size[0] == SAID_LINE_MAX && strcmp(h.text[1], "nodes 1") == 0,
       "100 kB without a newline are one cut line, and the next line is whole");
    said_lines_release(&l);
}

static void the_last_lines_are_kept(void)
{
    struct buf tail = BUF_INIT, shown = BUF_INIT;
    char line[64];
    int rc = 0;

    for (int k = 0; k < 100; k++) {
        snprintf(line, sizeof line, "line %d\n", k);
        rc |= said_tail_add(&tail, slice_text(line));
    }
    rc |= said_tail_show(&tail, &shown);
    ok(rc == 0 && strncmp(shown.p, "line 60\n", 8) == 0 &&
           strcmp(shown.p + shown.n - 7, "line 99") == 0,
       "of 100 lines the last 40");
    buf_clear(&shown);
    for (int k = 0; k < 1000; k++)
        rc |= said_tail_add(&tail, slice_text("0123456789012345678901234567890123456789"));
    ok(rc == 0 && tail.n <= SAID_TAIL_BYTES, "16 KiB at most");
    buf_clear(&tail);
    rc |= said_tail_add(&tail, slice_of("a\x1b[31m\xff\0b\n \n", 12));
    rc |= said_tail_show(&tail, &shown);
    ok(rc == 0 && strcmp(shown.p, "a [31m\xef\xbf\xbd b") == 0, "what is shown is text");
    buf_release(&tail);
    buf_release(&shown);
}

static void any_allocation_may_fail(void)
{
    int rc = -1;

    for (long nth = 0; rc < 0 && nth < 20; nth++) {
        struct said_lines l = SAID_LINES_INIT;
        struct buf tail = BUF_INIT, shown = BUF_INIT;
        struct heard h = { .n = 0 };

        alloc_fail_at(nth);
        rc = said_lines_add(&l, slice_text("nodes 2\nx"), hear, &h);
        rc |= said_tail_add(&tail, slice_text("words\n"));
        rc |= said_tail_show(&tail, &shown);
        alloc_fail_at(-1);
        said_lines_release(&l);
        buf_release(&tail);
        buf_release(&shown);
    }
    ok(rc == 0, "each failed allocation is said, and nothing leaks");
}

int main(void)
{
    lines_are_understood();
    all_else_is_nonsense();
    torn_reads_make_whole_lines();
    a_line_without_end_is_cut();
    the_last_lines_are_kept();
    any_allocation_may_fail();
    return plan_done();
}
