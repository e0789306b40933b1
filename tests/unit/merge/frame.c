/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables and panels stay together, and control sequences for a terminal are not shown. */
#include "kernel/merge/private.h"
#include "tests/unit/merge/fixture.h"

#define TOP       "┏━━━┓\n"
#define ROW(text) "\x1b[1m│\x1b[0m " text " │\n"
#define END       "└───┘\n"

static void equal_tables_are_one(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 3);
    for (unsigned r = 0; r < 3; r++)
        fixture_print(&f, r, "a\n" TOP ROW("x") END "b\n");
    fixture_is(&f, "[0-2] a\n[0-2] ┏━━━┓\n[0-2] \x1b[1m│\x1b[0m x │\n[0-2] └───┘\n[0-2] b\n",
               "each row has the label");
    is_int(merge_waiting(f.m), 0, "and nothing waits");
    fixture_release(&f);
}

static void unlike_tables_are_whole(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_print(&f, 0, "title\n" TOP "│ 0 │\n" END);
    fixture_print(&f, 1, "title\n" TOP "│ 1 │\n" END);
    fixture_wait(&f, 120);
    fixture_is(&f,
               "[0-1] title\n[0] ┏━━━┓\n[0] │ 0 │\n[0] └───┘\n[1] ┏━━━┓\n[1] │ 1 │\n[1] └───┘\n",
               "no row is folded into another's");
    fixture_print(&f, 0, "+---+\n| 0 |\n+---+\nend\n");
    fixture_print(&f, 1, "+---+\n| 1 |\n+---+\nend\n");
    fixture_wait(&f, 120);
    fixture_is(&f, "[0] +---+\n[0] | 0 |\n[0] +---+\n[1] +---+\n[1] | 1 |\n[1] +---+\n[0-1] end\n",
               "nor are those that are drawn with plain characters, and what follows is folded");
    fixture_release(&f);
}

static void a_table_in_pieces(enum plan_merge mode, const char *want)
{
    struct fixture f;

    fixture_init(&f, mode, 2);
    fixture_print(&f, 0, TOP "│ ");
    fixture_print(&f, 1, "between\n");
    fixture_wait(&f, 20);
    fixture_print(&f, 0, "0 │\n");
    fixture_wait(&f, 20);
    fixture_print(&f, 0, END);
    fixture_wait(&f, 120);
    fixture_is(&f, want, "is whole all the same");
    is_int(merge_waiting(f.m), 0, "and nothing waits");
    fixture_release(&f);
}

static void a_table_without_an_end(void)
{
    struct fixture f;
    struct err err = { "" };

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_print(&f, 0, TOP "│ 0");
    fixture_wait(&f, 60);
    fixture_is(&f, "[0] ┏━━━┓\n[0] │ 0", "is shown after a moment");
    fixture_print(&f, 0, " │\n" END "a\n");
    fixture_is(&f, " │\n[0] └───┘\n[0] a\n", "and goes on as lines");
    fixture_print(&f, 0, TOP "│ 0 │\na\n");
    fixture_is(&f, "[0] ┏━━━┓\n[0] │ 0 │\n[0] a\n", "a line of text ends it");
    fixture_print(&f, 0, TOP TOP);
    fixture_is(&f, "[0] ┏━━━┓\n", "as another's first row does");
    ok(merge_flush_rank(f.m, 0, &err) == 0, "flushes");
    fixture_is(&f, "[0] ┏━━━┓\n", "it is flushed with its rank");
    fixture_print(&f, 1, TOP);
    ok(merge_rank_over(f.m, 1, &err) == 0, "a rank is over");
    fixture_is(&f, "[1] ┏━━━┓\n", "and with a rank's end");
    is_int(merge_due_ns(f.m) == UINT64_MAX, 1, "nothing waits");
    fixture_release(&f);
}

static void a_table_without_measure(void)
{
    struct fixture f;
    struct buf rows = BUF_INIT;
    size_t lines = 0;

    fixture_init(&f, PLAN_PREFIX, 2);
    for (unsigned k = 0; k < 20000; k++)
        if (buf_add_text(&rows, k ? "│ 0 │\n" : TOP) < 0)
            abort();
    fixture_print(&f, 0, rows.p);
    fixture_flush(&f);
    for (const char *p = f.got[0].p; (p = strchr(p, '\n')); p++)
        lines++;
    is_int((long)lines, 20000, "is shown as lines");
    buf_release(&rows);
    fixture_release(&f);
}

static void rows(void)
{
    static const struct {
        const char *text;
        enum frame_row alone, within;
    } all[] = {
        { "", FRAME_NONE, FRAME_NONE },
        { "loss 0.3", FRAME_NONE, FRAME_NONE },
        { "╭─ Panel", FRAME_FIRST, FRAME_FIRST },
        { "  \x1b[38;5;3m╔══", FRAME_FIRST, FRAME_FIRST },
        { "+===+", FRAME_FIRST, FRAME_MIDDLE },
        { "+1 more", FRAME_NONE, FRAME_MIDDLE },
        { "| a | b |", FRAME_NONE, FRAME_MIDDLE },
        { "├───┤", FRAME_NONE, FRAME_MIDDLE },
        { "└── leaf", FRAME_NONE, FRAME_LAST },
        { "\x1b[2m╰──╯\x1b[0m", FRAME_NONE, FRAME_LAST },
        { "────", FRAME_NONE, FRAME_MIDDLE },
        { "▁▂▃", FRAME_NONE, FRAME_NONE },
        { "\x1b[", FRAME_NONE, FRAME_NONE },
        { "\x1b[1", FRAME_NONE, FRAME_NONE },
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        is_int(frame_row(slice_text(all[i].text), false), all[i].alone, "row %zu", i);
        is_int(frame_row(slice_text(all[i].text), true), all[i].within, "row %zu, within a frame",
               i);
    }
}

static void modes_of_a_terminal(void)
{
    static const char *const all[][2] = {
        { "a", "a" },
        { "", "" },
        { "\x1b[?25l", "" },
        { "a\x1b[?25lb\x1b[?1049;25hc", "abc" },
        { "\x1b[?", "\x1b[?" },
        { "\x1b[?25", "\x1b[?25" },
        { "\x1b[?\x1b[?7hx", "\x1b[?x" },
        { "\x1b[?6n\x1b[31mred", "\x1b[?6n\x1b[31mred" },
    };
    struct buf room = BUF_INIT;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const struct slice text = slice_text(all[i][0]);
        struct slice got;

        if (private_modes_strip(text, &room, &got) < 0)
            abort();
        ok(slice_equal(got, slice_text(all[i][1])), "a mode is taken out: %zu", i);
        ok(private_modes_set(text) == (got.n < text.n), "and seen");
    }
    buf_release(&room);
}

/* As rich draws: with a hidden cursor, which is back at the end. */
static void a_drawn_bar(enum plan_merge mode, unsigned n, const char *label)
{
    struct fixture f;
    char want[64];

    fixture_init(&f, mode, n);
    if (n > 1 && mode != PLAN_RANK0)
        if (merge_rank_over(f.m, 1, &(struct err){ "" }) < 0)
            abort();
    fixture_print(&f, 0, "\x1b[?25l");
    is_int(f.reports, 0, "a hidden cursor is nothing to show");
    fixture_feed(&f, 0, 1, LINES_PROGRESS, "A 1 %\nB 1 %\r\x1b[2K\x1b[1A");
    fixture_wait(&f, 100);
    snprintf(want, sizeof want, "%sA 1 %%\n%sB 1 %%\n", label, label);
    is_text(f.bars.p, want, "what is erased for the next state is shown until that comes");
    fixture_feed(&f, 0, 1, LINES_PROGRESS, "\x1b[2KA 2 %\nB 2 %");
    fixture_wait(&f, 100);
    snprintf(want, sizeof want, "%sA 2 %%\n%sB 2 %%\n", label, label);
    is_text(f.bars.p, want, "both rows are redrawn");
    fixture_print(&f, 0, "\n\x1b[?25h");
    fixture_wait(&f, 500);
    fixture_flush(&f);
    fixture_is(&f, want, "they end as lines, and the cursor leaves none");
    is_text(f.bars.p, "", "and no bar is left");
    fixture_release(&f);
}

static void a_drawing_that_is_erased(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_print(&f, 0, "\x1b[?25l");
    fixture_feed(&f, 0, 1, LINES_PROGRESS, "A\nB\r\x1b[2K\x1b[1A\x1b[2K");
    fixture_wait(&f, 100);
    is_text(f.bars.p, "[0] B\n", "stays below for a moment");
    fixture_wait(&f, 350);
    is_text(f.bars.p, "[0] B\n", "longer than an agent holds the last row of what follows");
    fixture_wait(&f, 60);
    is_text(f.bars.p, "", "and is gone when nothing follows");
    fixture_feed(&f, 0, 1, LINES_PROGRESS, "A\nB\r\x1b[2K\x1b[1A\x1b[2K");
    fixture_print(&f, 0, "done\n");
    fixture_is(&f, "[0] done\n", "at once when a line follows");
    fixture_flush(&f);
    is_text(f.bars.p, "", "and nothing is left");
    fixture_release(&f);
}

/* An agent passes the whole rows of a state on, and holds the last one, which has no newline. */
static void states_that_come_seldom_keep_their_last_row(void)
{
    struct fixture f;
    char want[64];

    fixture_init(&f, PLAN_RANK0, 1);
    fixture_print(&f, 0, "\x1b[?25l");
    fixture_feed(&f, 0, 1, LINES_PROGRESS, "A 0\nB 0");
    for (int k = 1; k < 4; k++) {
        char text[64];

        snprintf(text, sizeof text, "\r\x1b[2K\x1b[1A\x1b[2KA %d\n", k);
        fixture_feed(&f, 0, 1, LINES_PROGRESS, text);
        for (int ms = 0; ms < 400; ms += 50)
            fixture_wait(&f, 50);
        snprintf(want, sizeof want, "A %d\nB %d\n", k, k - 1);
        is_text(f.bars.p, want, "state %d: the last row stays until the next one comes", k);
        snprintf(text, sizeof text, "B %d", k);
        fixture_feed(&f, 0, 1, LINES_PROGRESS, text);
        fixture_wait(&f, 100);
        snprintf(want, sizeof want, "A %d\nB %d\n", k, k);
        is_text(f.bars.p, want, "state %d: then that is shown", k);
    }
    fixture_release(&f);
}

static void colours_alone(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_print(&f, 0, "\x1b[33ma\n\x1b[0m");
    fixture_print(&f, 1, "\x1b[33ma\n\x1b[0m");
    fixture_wait(&f, 200);
    fixture_is(&f, "[0-1] \x1b[33ma\n", "are no line");
    fixture_print(&f, 0, "b\n\x1b[0m");
    fixture_print(&f, 1, "b\n");
    fixture_is(&f, "[0-1] \x1b[0mb\n", "they go with what follows");
    fixture_flush(&f);
    fixture_is(&f, "\x1b[0m", "or stand at the end, without a label");
    fixture_release(&f);
}

int main(void)
{
    equal_tables_are_one();
    unlike_tables_are_whole();
    a_table_in_pieces(PLAN_FOLD, "[1] between\n[0] ┏━━━┓\n[0] │ 0 │\n[0] └───┘\n");
    a_table_in_pieces(PLAN_PREFIX, "[1] between\n[0] ┏━━━┓\n[0] │ 0 │\n[0] └───┘\n");
    a_table_without_an_end();
    a_table_without_measure();
    rows();
    modes_of_a_terminal();
    a_drawing_that_is_erased();
    states_that_come_seldom_keep_their_last_row();
    colours_alone();
    a_drawn_bar(PLAN_FOLD, 2, "[0] ");
    a_drawn_bar(PLAN_FOLD, 1, "");
    a_drawn_bar(PLAN_RANK0, 3, "");
    return plan_done();
}
