/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress bars: one line for each rank, drawn again and again. */
#include "tests/unit/merge/fixture.h"

static void bars_are_one_line_for_each_rank(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 3);
    fixture_bar(&f, 2, "\r10%|#\r20%|##");
    is_text(f.bars.p, "[2] 20%|##\n", "the last state is shown at once");
    fixture_bar(&f, 0, "\r30%|###\r");
    is_int(f.reports, 1, "the next one a moment later");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "[0] 30%|###\n[2] 20%|##\n", "in the order of ranks");
    fixture_bar(&f, 2, "\r30%|###");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "[0,2] 30%|###\n", "equal ones fold");
    is_text(f.got[1].p, "", "they are no text");
    ok(!f.left, "and go on");
    fixture_flush(&f);
    is_text(f.got[1].p, "[0,2] 30%|###\n", "at the end of the cell they are");
    ok(f.left, "this is told");
    is_text(f.bars.p, "", "and nothing is drawn any more");
    fixture_flush(&f);
    is_int(f.reports, 4, "and are reported once");
    fixture_release(&f);
}

static void a_newline_makes_a_line_of_a_bar(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_bar(&f, 0, "\r 50%");
    ok(fixture_feed(&f, 0, 2, 0, "\r100%\nnext\n") == 0, "it ends");
    fixture_wait(&f, 100);
    is_text(f.got[1].p, "[0] 100%\n[0] next\n", "its last state is an ordinary line");
    is_text(f.bars.p, "", "and the bar is gone");
    buf_clear(&f.got[1]);
    fixture_bar(&f, 1, "50%\r");
    ok(fixture_feed(&f, 1, 2, 0, "\n") == 0, "a bar with its carriage return at the end");
    fixture_wait(&f, 100);
    is_text(f.got[1].p, "[1] 50%\n", "is the same");
    fixture_release(&f);
}

static void what_follows_a_bar_stands_below_it(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_bar(&f, 0, "\r100%");
    ok(fixture_feed(&f, 0, 2, 0, "\n") == 0 && !f.got[1].n, "a bar that has ended waits");
    ok(fixture_feed(&f, 0, 1, 0, "done\n") == 0 && !f.page.n, "and what its rank prints then, too");
    fixture_wait(&f, 250);
    is_text(f.got[1].p, "[0] 100%\n", "on stderr, where it was drawn");
    fixture_page(&f, "[0] 100%\n[0] done\n", "the bar comes first");
    fixture_bar(&f, 1, "\r50%");
    ok(fixture_feed(&f, 1, 1, 0, "loss\n") == 0, "a line comes before the end of a bar");
    ok(fixture_feed(&f, 1, 2, 0, "\r100%\n") == 0 && fixture_feed(&f, 1, 1, 0, "next\n") == 0,
       "and one after it");
    ok(fixture_feed(&f, 1, 2, 0, "warning\n") == 0, "and one on stderr");
    fixture_wait(&f, 250);
    fixture_page(&f, "[1] loss\n[1] 100%\n[1] next\n[1] warning\n", "all keep their order");
    fixture_bar(&f, 1, "\router 0\n\rinner\x1b[A");
    ok(fixture_feed(&f, 1, 2, 0, "\router 1\n") == 0, "a bar with one below it has ended");
    ok(fixture_feed(&f, 1, 2, 0, "\r     \r") == 0, "the other one was wiped");
    ok(fixture_feed(&f, 1, 1, 0, "done\n") == 0, "a line follows");
    fixture_wait(&f, 250);
    fixture_page(&f, "[1] outer 1\n[1] done\n", "which stands below it, too");
    fixture_release(&f);
}

/* The newline that leads to a nested bar comes before the bar's text, and a line between. */
static void a_line_beside_a_nested_bar_ends_no_bar(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_bar(&f, 0, "\router");
    ok(fixture_feed(&f, 0, 2, 0, "\n") == 0 && fixture_feed(&f, 0, 1, 0, "loss\n") == 0, "a line");
    fixture_bar(&f, 0, "\rinner\x1b[A");
    fixture_wait(&f, 200);
    fixture_page(&f, "[0] loss\n", "it is shown");
    is_text(f.bars.p, "[0] outer\n[0] inner\n", "both bars are drawn");
    fixture_release(&f);
}

static void bars_that_end_at_different_times_stand_together(void)
{
    struct fixture f;
    struct err err = { "" };

    fixture_init(&f, PLAN_FOLD, 4);
    for (unsigned rank = 0; rank < 4; rank++)
        fixture_bar(&f, rank,
                    rank == 3   ? "\rthree"
                    : rank == 2 ? "\rtwo"
                    : rank      ? "\rone"
                                : "\rzero");
    ok(fixture_feed(&f, 2, 2, 0, "\n") == 0 && merge_rank_over(f.m, 2, &err) == 0, "rank 2 ends");
    fixture_wait(&f, 1000);
    ok(fixture_feed(&f, 3, 2, 0, "\n") == 0, "so does the bar of rank 3");
    fixture_wait(&f, 1000);
    is_text(f.bars.p, "[0] zero\n[1] one\n[2] two\n[3] three\n", "they stay beside the others");
    ok(fixture_feed(&f, 3, 1, 0, "done\n") == 0, "rank 3 prints a line");
    fixture_wait(&f, 300);
    fixture_page(&f, "[3] three\n[3] done\n", "which stands below its bar");
    is_text(f.bars.p, "[0] zero\n[1] one\n[2] two\n", "the others are drawn");
    ok(fixture_feed(&f, 1, 2, 0, "\n") == 0 && fixture_feed(&f, 0, 2, 0, "\n") == 0, "they end");
    fixture_wait(&f, 400);
    fixture_page(&f, "[0] zero\n[1] one\n[2] two\n", "and stand in order of rank");
    is_text(f.bars.p, "", "nothing is drawn any more");
    fixture_release(&f);
}

static void on_a_page_bars_that_ended_are_on_stdout(void)
{
    struct ranks world = RANKS_INIT;
    struct err err = { "" };
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    merge_destroy(f.m);
    ok(ranks_add_range(&world, 0, 1) == 0 &&
           (f.m = merge_create(PLAN_FOLD, &world, &f.clock,
                               (struct merge_out){ .text = fixture_text,
                                                   .progress = fixture_progress,
                                                   .arg = &f,
                                                   .plain_bars = true },
                               &err)) != NULL,
       "a merge for a page");
    ranks_release(&world);
    fixture_bar(&f, 0, "\r100%");
    ok(fixture_feed(&f, 0, 2, 0, "\nwarning\n") == 0, "a bar ends, and a line follows on stderr");
    fixture_wait(&f, 200);
    is_text(f.got[0].p, "[0] 100%\n", "the bar is on stdout");
    is_text(f.got[1].p, "[0] warning\n", "the line is not");
    fixture_page(&f, "[0] 100%\n[0] warning\n", "and stands below it");
    fixture_release(&f);
}

static void a_bar_that_is_wiped_leaves_nothing(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_bar(&f, 0, "\r 50%");
    fixture_bar(&f, 0, "\r    \r");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "", "blanks over it wipe it");
    ok(fixture_feed(&f, 0, 2, 0, "hello\n") == 0, "a line follows");
    is_text(f.got[1].p, "[0] hello\n", "without it");
    fixture_bar(&f, 0, "\r 50%\r\x1b[2K");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "", "so does the terminal's erase");
    fixture_release(&f);
}

static void the_start_of_a_line_belongs_to_its_bar(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    ok(fixture_feed(&f, 0, 2, LINES_WITHIN, "10%") == 0,
       "a first state comes without carriage return");
    fixture_bar(&f, 0, "\r20%");
    is_text(f.bars.p, "[0] 20%\n", "the next one takes its place");
    ok(fixture_feed(&f, 0, 2, LINES_WITHIN, " more") == 0, "what goes on without one");
    fixture_wait(&f, 50);
    is_text(f.bars.p, "[0] 20% more\n", "stands behind it");
    fixture_release(&f);
}

static void carriage_return_newline_is_a_newline(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_print(&f, 0, "a\r\nb\r\n");
    fixture_is(&f, "[0] a\n[0] b\n", "as other systems write it");
    is_int(f.reports, 0, "nothing of it was a bar");
    fixture_release(&f);
}

static void raw_bars_have_no_labels(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_RAW, 2);
    fixture_bar(&f, 1, "\r20%");
    is_text(f.bars.p, "20%\n", "with --merge raw");
    fixture_release(&f);
}

/* As tqdm draws them: a newline, the inner bar, a step up. */
static void nested_bars_are_drawn_in_place(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        fixture_bar(&f, 1, epoch ? "\router 1" : "\router 0");
        for (unsigned i = 0; i < 5; i++) {
            ok(fixture_feed(&f, 1, 2, 0, "\n") == 0, "the cursor goes down");
            fixture_bar(&f, 1, i < 4 ? "\rinner\x1b[A" : "\r     \r\x1b[A");
            if (i < 4) {
                fixture_wait(&f, 200);
                is_text(f.bars.p, epoch ? "[1] outer 1\n[1] inner\n" : "[1] outer 0\n[1] inner\n",
                        "both are drawn");
            }
        }
    }
    ok(fixture_feed(&f, 1, 2, 0, "\router 3\n") == 0, "the end");
    is_text(f.got[1].p, "", "none of it became a line");
    fixture_flush(&f);
    is_text(f.got[1].p, "[1] outer 3\n", "but what stays");
    is_text(f.bars.p, "", "and nothing is drawn any more");
    fixture_release(&f);
}

/* tqdm with leave=True, and rich: rows that nobody draws again become lines, in their order. */
static void rows_above_nested_bars_are_lines(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_bar(&f, 0, "\router 0\n\rinner\x1b[A");
    ok(fixture_feed(&f, 0, 2, 0, "\rinner done\n") == 0,
       "the inner bar is left in the outer one's place");
    fixture_bar(&f, 0, "\router 1");
    ok(fixture_feed(&f, 0, 2, 0, "\n\rinner again\x1b[A") == 0, "the next one");
    fixture_wait(&f, 200);
    is_text(f.got[1].p, "[0] inner done\n", "what is out of reach is a line");
    is_text(f.bars.p, "[0] outer 1\n[0] inner again\n", "the others are drawn");
    fixture_flush(&f);
    is_text(f.got[1].p, "[0] inner done\n[0] outer 1\n[0] inner again\n", "and become lines");
    fixture_bar(&f, 1, "a\nb\r\x1b[2K\x1b[1A\x1b[2Kc\nd");
    fixture_wait(&f, 200);
    is_text(f.bars.p, "[1] c\n[1] d\n", "rows are drawn anew, however the terminal is told");
    fixture_bar(&f, 1, "\r\x1b[2K\x1b[1A\x1b[2Ke\nf");
    fixture_wait(&f, 200);
    is_text(f.bars.p, "[1] e\n[1] f\n", "and two rows are drawn from then on");
    fixture_bar(&f, 1, "\x1b[99999999999A\rg\x1b[");
    fixture_flush(&f);
    ok(f.left, "whatever number is asked for");
    fixture_release(&f);
}

/* More rows than are kept. */
static void many_rows_become_lines(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_bar(&f, 0, "\rx\x1b[15A");
    for (unsigned i = 0; i < 40; i++)
        fixture_bar(&f, 0, "\ry\n");
    fixture_wait(&f, 200);
    ok(f.got[1].n >= 24 * strlen("[0] y\n"), "the first ones are lines");
    fixture_flush(&f);
    is_int((long)f.got[1].n, 40 * (long)strlen("[0] y\n"), "in the end all are");
    fixture_release(&f);
}

/* As tqdm(position=n) draws on each rank: down to its row, the bar, and back up. */
static void bars_with_positions_are_one_line_for_each_rank(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 4);
    for (unsigned state = 0; state < 3; state++) {
        ok(fixture_feed(&f, 1, 2, 0, "\n") == 0 && fixture_feed(&f, 3, 2, 0, "\n\n\n") == 0,
           "down");
        fixture_bar(&f, 1, state ? "\rone: 50%\x1b[A" : "\rone: 10%\x1b[A");
        fixture_bar(&f, 3,
                    state ? "\rthree: 50%\x1b[A\x1b[A\x1b[A" : "\rthree: 10%\x1b[A\x1b[A\x1b[A");
        fixture_wait(&f, 400);
        is_text(f.bars.p,
                state ? "[1] one: 50%\n[3] three: 50%\n" : "[1] one: 10%\n[3] three: 10%\n",
                "a line for each");
    }
    is_text(f.got[1].p, "", "no empty lines");
    ok(fixture_feed(&f, 1, 2, 0, "\rone: 100%\n") == 0,
       "tqdm leaves a bar that ended in the first row");
    fixture_wait(&f, 400);
    is_text(f.bars.p, "[1] one: 100%\n[3] three: 50%\n", "and it is the same bar");
    fixture_flush(&f);
    is_text(f.got[1].p, "[1] one: 100%\n[3] three: 50%\n", "they end as lines");
    is_text(f.bars.p, "", "and nothing is drawn any more");
    fixture_release(&f);
}

static void a_bar_whose_way_down_was_long_ago_keeps_one_line(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    ok(fixture_feed(&f, 1, 2, 0, "\n\n") == 0, "empty lines");
    fixture_wait(&f, 400);
    is_text(f.got[1].p, "[1] \n[1] \n", "are lines when nothing follows");
    fixture_bar(&f, 1, "\r10%\x1b[A\x1b[A");
    fixture_bar(&f, 1, "\n\n\r20%\x1b[A\x1b[A");
    fixture_wait(&f, 100);
    is_text(f.bars.p, "[1] 20%\n", "the bar takes its own place");
    fixture_release(&f);
}

static void bars_of_several_positions_keep_their_rows(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    for (unsigned k = 0; k < 2; k++) {
        fixture_bar(&f, 1, "\ra: 10%");
        fixture_bar(&f, 1, "\n\rb: 10%\x1b[A");
        fixture_bar(&f, 1, "\n\n\rc: 10%\x1b[A\x1b[A");
    }
    fixture_wait(&f, 400);
    is_text(f.bars.p, "[1] a: 10%\n[1] b: 10%\n[1] c: 10%\n", "three of one rank");
    is_text(f.got[1].p, "", "none became a line");
    fixture_release(&f);
}

static void empty_lines_keep_their_place(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_print(&f, 0, "a\n\n");
    fixture_print(&f, 0, "\n");
    fixture_print(&f, 0, "\x1b[1mb\x1b[0m\n");
    fixture_is(&f, "[0] a\n[0] \n[0] \n[0] \x1b[1mb\x1b[0m\n", "before a coloured line");
    is_int(f.reports, 0, "nothing was a bar");
    fixture_release(&f);
}

/* A sanitizer finds rows that are lost. */
static void bars_that_come_again_move_above_the_first_row(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_bar(&f, 0, "\rone\n\rtwo\n\rthree\x1b[A\x1b[A");
    fixture_flush(&f);
    fixture_page(&f, "[0] one\n[0] two\n[0] three\n", "nested bars become lines");
    for (int i = 0; i < 3; i++) {
        fixture_bar(&f, 0, "\rlow\x1b[A\rhigh\x1b[A\rtop");
        fixture_wait(&f, 100);
        is_text(f.bars.p, "[0] top\n[0] high\n[0] low\n", "others are drawn upwards");
        fixture_flush(&f);
        fixture_page(&f, "[0] top\n[0] high\n[0] low\n", "and become lines");
    }
    fixture_release(&f);
}

int main(void)
{
    bars_are_one_line_for_each_rank();
    a_newline_makes_a_line_of_a_bar();
    what_follows_a_bar_stands_below_it();
    a_line_beside_a_nested_bar_ends_no_bar();
    bars_that_end_at_different_times_stand_together();
    on_a_page_bars_that_ended_are_on_stdout();
    a_bar_that_is_wiped_leaves_nothing();
    the_start_of_a_line_belongs_to_its_bar();
    carriage_return_newline_is_a_newline();
    raw_bars_have_no_labels();
    nested_bars_are_drawn_in_place();
    rows_above_nested_bars_are_lines();
    many_rows_become_lines();
    bars_with_positions_are_one_line_for_each_rank();
    a_bar_whose_way_down_was_long_ago_keeps_one_line();
    bars_of_several_positions_keep_their_rows();
    empty_lines_keep_their_place();
    bars_that_come_again_move_above_the_first_row();
    return plan_done();
}
