/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/child_lines.h and base/tail.c: lines of a child's output, and its last lines. */
#include "base/child_lines.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/chaos.h"
#include "tests/unit/tap.h"

struct heard {
    char text[8][64];
    size_t size[8];
    unsigned n;
};

static void hear(void *arg, const char *line)
{
    struct heard *h = arg;

    h->size[h->n] = strlen(line);
    snprintf(h->text[h->n++], sizeof h->text[0], "%s", line);
}

static bool heard(const struct heard *h, unsigned n, const char *first, const char *last)
{
    return h->n == n && strcmp(h->text[0], first) == 0 && strcmp(h->text[n - 1], last) == 0;
}

static void torn_reads_make_whole_lines(void)
{
    const char *text = "nodes 2\nnode 0 a\n\nsay hi";

    for (size_t cut = 0; cut <= strlen(text); cut++) {
        struct child_lines l = CHILD_LINES_MESSAGES;
        struct heard h = { .n = 0 };
        int rc = child_lines_add(&l, slice_of(text, cut), hear, &h);

        rc |= child_lines_add(&l, slice_text(text + cut), hear, &h);
        child_lines_end(&l, hear, &h);
        ok(rc == 0 && heard(&h, 3, "nodes 2", "say hi") && strcmp(h.text[1], "node 0 a") == 0,
           "cut at %zu", cut);
        child_lines_release(&l);
    }
}

static void carriage_returns(void)
{
    struct child_lines text = CHILD_LINES_TEXT, messages = CHILD_LINES_MESSAGES;
    const struct slice bytes = slice_of("10 %\r20 %\r\nd\0one\n", 17);
    struct heard a = { .n = 0 }, b = { .n = 0 };

    ok(child_lines_add(&text, bytes, hear, &a) == 0 && heard(&a, 3, "10 %", "done"),
       "of text for people a carriage return ends a line; a NUL is left out");
    ok(child_lines_add(&messages, bytes, hear, &b) == 0 && heard(&b, 2, "10 %\r20 %\r", "done"),
       "of messages only a newline does");
    child_lines_release(&text);
    child_lines_release(&messages);
}

/* 9000 bytes without a newline, and a line behind them. */
static void hear_long(struct child_lines *l, struct heard *h)
{
    char much[1000];
    int rc = 0;

    memset(much, 'x', sizeof much);
    for (int k = 0; k < 9; k++)
        rc |= child_lines_add(l, slice_of(much, sizeof much), hear, h);
    rc |= child_lines_add(l, slice_text("\nlast\n"), hear, h);
    ok(rc == 0, "memory");
    child_lines_release(l);
}

static void long_lines(void)
{
    struct child_lines text = CHILD_LINES_TEXT, messages = CHILD_LINES_MESSAGES;
    struct heard a = { .n = 0 }, b = { .n = 0 };

    hear_long(&text, &a);
    ok(a.n == 4 && a.size[0] == CHILD_LINE_MAX && a.size[1] == CHILD_LINE_MAX &&
           a.size[2] == 9000 - 2 * CHILD_LINE_MAX && a.size[3] == 4,
       "a long line of text goes on as the next one");
    hear_long(&messages, &b);
    ok(b.n == 2 && b.size[0] == CHILD_LINE_MAX && strcmp(b.text[1], "last") == 0,
       "a long message is cut, and the next is whole");
}

static void a_pipe_is_read(void)
{
    struct child_lines l = CHILD_LINES_TEXT;
    struct heard h = { .n = 0 };
    int fd[2];

    if (pipe(fd) < 0)
        return;
    ok(write(fd[1], "one\ntwo", 7) == 7 && child_lines_read(&l, fd[0], hear, &h) &&
           heard(&h, 1, "one", "one"),
       "what waits is read");
    close(fd[1]);
    ok(!child_lines_read(&l, fd[0], hear, &h) && h.n == 1, "the end is told");
    child_lines_end(&l, hear, &h);
    ok(heard(&h, 2, "one", "two"), "and then the last line is whole");
    close(fd[0]);
    child_lines_release(&l);
}

static void lines_without_memory(void)
{
    struct child_lines l = CHILD_LINES_MESSAGES;
    struct heard h = { .n = 0 };

    alloc_fail_at(0);
    ok(child_lines_add(&l, slice_text("one\ntwo\n"), hear, &h) < 0, "a failed allocation is said");
    alloc_fail_at(-1);
    ok(h.n > 0 && strcmp(h.text[h.n - 1], "two") == 0, "and the next line is whole");
    child_lines_release(&l);
}

static void last_lines_are_kept(void)
{
    struct tail t = TAIL_INIT;
    struct buf out = BUF_INIT;
    char line[32];
    int rc = 0;

    for (int i = 0; i < 5000; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        rc |= tail_add(&t, slice_text(line));
    }
    ok(rc == 0 && tail_text(&t, 2, &out) == 0, "memory");
    is_text(out.p, "line 4998\nline 4999\n", "the last two of 5000 lines");
    ok(t.bytes.n <= 2 * TAIL_SIZE, "little is kept: %zu bytes", t.bytes.n);
    buf_clear(&out);
    tail_clear(&t);
    ok(tail_add(&t, slice_text("a\xff")) == 0 && tail_text(&t, 2, &out) == 0, "memory");
    is_text(out.p, "a\xef\xbf\xbd", "what is no UTF-8 is replaced");
    tail_release(&t);
    alloc_fail_at(0);
    ok(tail_add(&t, slice_text("a")) < 0, "a failed allocation is said");
    alloc_fail_at(-1);
    tail_release(&t);
    buf_release(&out);
}

int main(void)
{
    torn_reads_make_whole_lines();
    carriage_returns();
    long_lines();
    a_pipe_is_read();
    lines_without_memory();
    last_lines_are_kept();
    return plan_done();
}
