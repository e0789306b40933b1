/* SPDX-License-Identifier: BSD-3-Clause */
/* prefix, raw, rank0, a world of one rank; unfinished lines, long lines, incomplete characters. */
#include "tests/unit/merge/fixture.h"

static void prefix_labels_every_line(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 3);
    fixture_print(&f, 2, "a\nb\n");
    fixture_is(&f, "[2] a\n[2] b\n", "at once");
    is_int(f.blocks, 1, "in one block");
    fixture_print(&f, 0, "a\n");
    fixture_is(&f, "[0] a\n", "equal lines are not folded");
    fixture_release(&f);
}

static void raw_has_no_labels(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_RAW, 2);
    fixture_print(&f, 1, "a\n");
    fixture_print(&f, 0, "b");
    fixture_print(&f, 1, "c\n");
    fixture_wait(&f, 60);
    fixture_print(&f, 0, "d\n");
    fixture_is(&f, "a\nc\nbd\n", "but lines are whole");
    fixture_release(&f);
}

static void rank0_shows_one_rank(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_RANK0, 3);
    fixture_print(&f, 1, "no\n");
    fixture_print(&f, 0, "10%\r20%\ryes");
    fixture_is(&f, "10%\r20%\ryes", "as it comes, carriage returns too");
    fixture_release(&f);
}

static void a_world_of_one_is_not_labelled(void)
{
    struct fixture f;
    struct err err = { "" };

    fixture_init(&f, PLAN_FOLD, 1);
    fixture_print(&f, 0, "a\n\xc3");
    fixture_print(&f, 0, "\xa4 b\xff\xe2\x82");
    fixture_is(&f, "a\n\xc3\xa4 b\xef\xbf\xbd", "torn characters wait, invalid ones are replaced");
    ok(merge_flush(f.m, &err) == 0, "at the end");
    fixture_is(&f, "\xef\xbf\xbd", "what is left of one is replaced");
    fixture_release(&f);
}

static void a_lone_rank_that_is_not_0(void)
{
    struct ranks world = RANKS_INIT;
    struct err err = { "" };
    struct fixture f = { .now = 1 };

    f.clock = (struct clock){ .now_ns = fixture_now, .arg = &f };
    if (ranks_add(&world, 5) < 0)
        abort();
    f.m = merge_create(PLAN_RANK0, &world, &f.clock,
                       (struct merge_out){
                           .text = fixture_text, .progress = fixture_progress, .arg = &f },
                       &err);
    fixture_print(&f, 5, "a\n");
    fixture_is(&f, "a\n", "rank 5 alone is shown with --merge rank0, too");
    ranks_clear(&world);
    ok(!merge_create(PLAN_FOLD, &world, &f.clock, (struct merge_out){ 0 }, &err) && err.text[0],
       "no ranks: %s", err.text);
    ranks_release(&world);
    fixture_release(&f);
}

static void pieces_of_a_line_become_whole(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_print(&f, 0, "hel");
    fixture_print(&f, 1, "hello\n");
    fixture_print(&f, 0, "lo\n");
    fixture_is(&f, "[0-1] hello\n",
               "a line in pieces folds like any other when its end comes soon");
    fixture_release(&f);
}

static void an_unfinished_line_is_shown_and_goes_on(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_print(&f, 0, "working");
    fixture_is(&f, "", "it waits a moment");
    fixture_wait(&f, 50);
    fixture_is(&f, "[0] working", "then it is shown");
    fixture_print(&f, 0, " ...");
    fixture_is(&f, " ...", "and goes on without a second label");
    fixture_print(&f, 1, "mine\n");
    fixture_is(&f, "\n[1] mine\n",
               "another rank's line breaks it, instead of standing in its middle");
    fixture_print(&f, 0, " done\n");
    fixture_is(&f, "[0]  done\n", "its rest is labelled again");
    fixture_release(&f);
}

static void a_newline_for_a_broken_line_shows_nothing(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_print(&f, 0, "working");
    fixture_wait(&f, 50);
    fixture_print(&f, 1, "mine\n");
    fixture_print(&f, 0, "\nnext\n");
    fixture_is(&f, "[0] working\n[1] mine\n[0] next\n", "the line had ended on the screen already");
    fixture_release(&f);
}

static void dots_of_all_ranks_fold(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    for (int k = 0; k < 3; k++) {
        fixture_print(&f, 0, ".");
        fixture_print(&f, 1, ".");
        fixture_wait(&f, 200);
    }
    fixture_print(&f, 0, "\n");
    fixture_print(&f, 1, "\n");
    fixture_is(&f, "[0-1] ...\n", "as one line that grows");
    fixture_release(&f);
}

static void a_long_line_holds_others_back(void)
{
    struct fixture f;
    char *piece = malloc(100001);
    size_t n;

    if (!piece)
        abort();
    memset(piece, 'x', 100000);
    piece[100000] = '\0';
    fixture_init(&f, PLAN_FOLD, 2);
    fixture_print(&f, 0, piece);
    fixture_print(&f, 1, "mine\n");
    fixture_wait(&f, 500);
    fixture_print(&f, 0, piece);
    fixture_wait(&f, 500);
    fixture_print(&f, 0, "\n");
    n = strlen("[0] ") + 200000 + 1;
    is_int(f.got[0].n, n + strlen("[1] mine\n"), "two pieces and a line are shown");
    ok(!strcmp(f.got[0].p + n, "[1] mine\n") && f.got[0].p[n - 1] == '\n',
       "the other rank's line behind the long one");
    buf_clear(&f.got[0]);
    fixture_print(&f, 0, piece);
    fixture_print(&f, 1, "mine\n");
    fixture_wait(&f, 1100);
    ok(strstr(f.got[0].p, "x\n[1] mine\n") != NULL, "but not for longer than a second of silence");
    free(piece);
    fixture_release(&f);
}

static void nothing_grows_behind_a_long_line(void)
{
    struct fixture f;
    char line[1001];
    char piece[20001];

    memset(line, 'y', 1000);
    line[999] = '\n';
    line[1000] = '\0';
    memset(piece, 'x', 20000);
    piece[20000] = '\0';
    fixture_init(&f, PLAN_PREFIX, 2);
    fixture_print(&f, 0, piece);
    for (int k = 0; k < 3000; k++)
        fixture_print(&f, 1, line);
    ok(merge_waiting(f.m) < (size_t)2 << 20, "what waits is bounded (%zu)", merge_waiting(f.m));
    fixture_print(&f, 0, "end\n");
    fixture_flush(&f);
    is_int(f.got[0].n, 20004 + 1 + 3000 * 1004 + 8, "and all of it is shown");
    fixture_release(&f);
}

static void a_rank_is_flushed_before_its_display(void)
{
    struct fixture f;
    struct err err = { "" };

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_print(&f, 0, "a\nb");
    fixture_print(&f, 1, "c\n");
    ok(merge_flush_rank(f.m, 0, &err) == 0, "rank 0 is flushed");
    fixture_is(&f, "[0] a\n[0] b\n[1] c\n",
               "with the line that has no end yet, and with what stands before it");
    fixture_print(&f, 1, "d\n");
    ok(merge_flush_rank(f.m, 0, &err) == 0, "again, with nothing of it waiting");
    fixture_is(&f, "", "others' lines go on waiting for equal lines");
    fixture_release(&f);
}

static void others_show_lines_at_the_same_place(void)
{
    struct fixture f;
    char part[1001] = "";

    fixture_init_as(&f, PLAN_FOLD, 1, true);
    fixture_print(&f, 0, "begun\n");
    fixture_is(&f, "[0] begun\n", "then the lines of a rank alone have its label");
    fixture_print(&f, 0, "so");
    fixture_wait(&f, 2000);
    fixture_is(&f, "", "an unfinished line is not shown, for others would end it");
    fixture_print(&f, 0, " far\n");
    fixture_is(&f, "[0] so far\n", "it is shown when it is whole");
    fixture_print(&f, 0, "+---+\n| a |\n");
    fixture_print(&f, 0, "start");
    fixture_wait(&f, 2000);
    fixture_print(&f, 0, " end\n");
    fixture_wait(&f, 2000);
    fixture_is(&f, "[0] +---+\n[0] | a |\n[0] start end\n", "also after the rows of a table");
    fixture_print(&f, 0, "the end");
    fixture_flush(&f);
    fixture_is(&f, "[0] the end\n", "or when nothing more comes, with a newline");
    memset(part, 'x', sizeof part - 1);
    for (unsigned k = 0; k < 66 && !f.got[0].n; k++)
        fixture_print(&f, 0, part);
    ok(f.got[0].n > 60000 && merge_waiting(f.m) < 65536,
       "a very long one is shown in pieces, so that what waits stays small");
    fixture_release(&f);
    fixture_init_as(&f, PLAN_RANK0, 1, true);
    fixture_print(&f, 0, "begun\n");
    fixture_is(&f, "begun\n", "--merge rank0 has no labels");
    fixture_release(&f);
}

int main(void)
{
    prefix_labels_every_line();
    raw_has_no_labels();
    rank0_shows_one_rank();
    a_world_of_one_is_not_labelled();
    a_lone_rank_that_is_not_0();
    others_show_lines_at_the_same_place();
    pieces_of_a_line_become_whole();
    an_unfinished_line_is_shown_and_goes_on();
    a_newline_for_a_broken_line_shows_nothing();
    dots_of_all_ranks_fold();
    a_long_line_holds_others_back();
    nothing_grows_behind_a_long_line();
    a_rank_is_flushed_before_its_display();
    return plan_done();
}
