/* SPDX-License-Identifier: BSD-3-Clause */
/* Equal lines of several ranks become one; each rank's lines keep their order. */
#include "tests/unit/merge/fixture.h"

static void lines_of_all_ranks_leave_at_once(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 3);
    fixture_print(&f, 0, "epoch 1\n");
    fixture_print(&f, 2, "epoch 1\n");
    fixture_is(&f, "", "a line waits for equal lines");
    ok(merge_waiting(f.m) == 7, "and is counted once");
    fixture_print(&f, 1, "epoch 1\n");
    fixture_is(&f, "[0-2] epoch 1\n", "the last equal line lets it leave");
    ok(merge_due_ns(f.m) == UINT64_MAX && merge_waiting(f.m) == 0, "nothing waits");
    fixture_release(&f);
}

static void a_line_waits_100_ms_at_most(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 4);
    fixture_print(&f, 0, "a\n");
    fixture_wait(&f, 99);
    fixture_print(&f, 2, "a\n");
    fixture_is(&f, "", "99 ms later it still waits");
    fixture_wait(&f, 1);
    fixture_is(&f, "[0,2] a\n", "after 100 ms it leaves with those that came");
    fixture_print(&f, 1, "a\n");
    fixture_wait(&f, 100);
    fixture_is(&f, "[1] a\n", "a late one leaves alone");
    fixture_release(&f);
}

static void order_within_a_rank_is_kept(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_print(&f, 0, "a\nb\n");
    fixture_print(&f, 1, "b\na\n");
    fixture_flush(&f);
    fixture_is(&f, "[0] a\n[0-1] b\n[1] a\n",
               "a line joins no equal line that stands before the rank's last one");
    fixture_print(&f, 0, "x\nx\nx\n");
    fixture_print(&f, 1, "x\nx\n");
    fixture_flush(&f);
    fixture_is(&f, "[0-1] x\n[0-1] x\n[0] x\n", "equal lines of one rank are several lines");
    fixture_release(&f);
}

static void what_nobody_can_join_any_more_leaves(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_print(&f, 0, "only 0\nboth\n");
    fixture_print(&f, 1, "both\n");
    fixture_is(&f, "[0] only 0\n[0-1] both\n", "a line of all ranks takes those before it along");
    fixture_release(&f);
}

static void the_living_are_waited_for(void)
{
    struct fixture f;
    struct err err = { "" };

    fixture_init(&f, PLAN_FOLD, 3);
    fixture_print(&f, 0, "a\n");
    fixture_print(&f, 1, "a\n");
    ok(merge_rank_over(f.m, 2, &err) == 0, "rank 2 is over");
    fixture_is(&f, "[0-1] a\n", "nobody waits for it");
    fixture_print(&f, 2, "late\n");
    fixture_wait(&f, 100);
    fixture_is(&f, "[2] late\n", "what it still prints is shown");
    ok(merge_rank_over(f.m, 0, &err) == 0 && merge_rank_over(f.m, 1, &err) == 0 &&
           merge_rank_over(f.m, 1, &err) == 0,
       "all are over, one twice");
    fixture_print(&f, 0, "b\n");
    fixture_is(&f, "[0] b\n", "then nothing waits");
    fixture_release(&f);
}

static void runs_of_one_rank_stay_together(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 3);
    for (int i = 0; i < 3; i++)
        for (unsigned r = 0; r < 2; r++) {
            char line[16];

            snprintf(line, sizeof line, "%c%d\n", r ? 'b' : 'a', i);
            fixture_print(&f, r, line);
            fixture_wait(&f, 1);
        }
    fixture_wait(&f, 100);
    fixture_is(&f, "[0] a0\n[0] a1\n[0] a2\n[1] b0\n[1] b1\n[1] b2\n",
               "lines that came line by line are grouped");
    fixture_release(&f);
}

static void tracebacks_differ_in_one_line(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 3);
    for (unsigned r = 0; r < 2; r++) {
        char text[64];

        snprintf(text, sizeof text, "Traceback\n  at x\nrank %u\n", r);
        fixture_print(&f, r, text);
    }
    fixture_wait(&f, 100);
    fixture_is(&f, "[0-1] Traceback\n[0-1]   at x\n[0] rank 0\n[1] rank 1\n",
               "what is equal is shown once");
    fixture_release(&f);
}

static void equal_lines_meet_behind_different_ones(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 3);
    fixture_print(&f, 2, "loss 0.2\nepoch 1\n");
    fixture_wait(&f, 40);
    fixture_print(&f, 0, "loss 0.3\nepoch 1\n");
    fixture_wait(&f, 40);
    fixture_print(&f, 1, "loss 0.4\nepoch 1\n");
    fixture_is(&f, "[2] loss 0.2\n[0] loss 0.3\n[1] loss 0.4\n[0-2] epoch 1\n",
               "what follows on different lines folds, too");
    fixture_print(&f, 0, "a\nx\n");
    fixture_wait(&f, 60);
    fixture_print(&f, 1, "b\nx\n");
    fixture_wait(&f, 40);
    fixture_is(&f, "[0] a\n[1] b\n[0-1] x\n", "and nobody waits longer for it than 100 ms");
    fixture_release(&f);
}

static void streams_do_not_mix(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_print(&f, 0, "a\n");
    ok(fixture_feed(&f, 1, 2, 0, "a\n") == 0, "the other rank prints it on stderr");
    fixture_flush(&f);
    fixture_is(&f, "[0] a\n", "stdout has one");
    is_text(f.got[1].p, "[1] a\n", "stderr the other");
    fixture_release(&f);
}

static void memory_is_bounded(void)
{
    struct fixture f;
    size_t most = 0;
    char line[128];
    unsigned k;

    fixture_init(&f, PLAN_FOLD, 2);
    for (k = 0; k < 100000; k++) {
        snprintf(line, sizeof line, "line %u of the one rank that prints, and nobody else does\n",
                 k);
        fixture_print(&f, 0, line);
        if (merge_waiting(f.m) > most)
            most = merge_waiting(f.m);
    }
    ok(most <= (size_t)4 << 20, "at most 4 MiB wait (%zu)", most);
    fixture_flush(&f);
    ok(strstr(f.got[0].p, "[0] line 0 of") == f.got[0].p && strstr(f.got[0].p, "line 99999 of"),
       "from first to last");
    fixture_release(&f);
}

static void thousands_of_equal_lines_fold(void)
{
    struct fixture f;
    struct buf text = BUF_INIT;
    size_t lines = 0;

    fixture_init(&f, PLAN_FOLD, 2);
    for (unsigned k = 0; k < 20000; k++)
        if (buf_add_text(&text, "\n") < 0)
            abort();
    fixture_print(&f, 0, text.p);
    fixture_print(&f, 1, text.p);
    for (const char *p = f.got[0].p; (p = strstr(p, "[0-1] \n")); p++)
        lines++;
    ok(lines == 20000, "20000 blank lines of two ranks are 20000 lines (%zu)", lines);
    buf_release(&text);
    fixture_release(&f);
}

static void a_world_of_many_words(void)
{
    struct fixture f;

    fixture_init(&f, PLAN_FOLD, 200);
    for (unsigned r = 0; r < 200; r++)
        if (r != 130)
            fixture_print(&f, r, "ready\n");
    fixture_wait(&f, 100);
    fixture_is(&f, "[0-129,131-199] ready\n", "rank sets of 200 are formatted");
    fixture_release(&f);
}

static void what_out_says_is_handed_through(void)
{
    struct fixture f;
    struct err err = { "" };

    fixture_init(&f, PLAN_FOLD, 2);
    fixture_print(&f, 0, "a\n");
    f.rc = -1;
    is_int(merge_lines(f.m, 1, 1, 0, slice_text("a\n"), &err), -1, "a failing out fails the call");
    is_text(err.text, "", "and has the words for it");
    is_int(merge_lines(f.m, 999, 1, 0, slice_text("a\n"), &err), -1,
           "a rank that can't be is refused");
    ok(strstr(err.text, "rank 999") != NULL, "by name: %s", err.text);
    fixture_release(&f);
}

int main(void)
{
    lines_of_all_ranks_leave_at_once();
    a_line_waits_100_ms_at_most();
    order_within_a_rank_is_kept();
    what_nobody_can_join_any_more_leaves();
    the_living_are_waited_for();
    runs_of_one_rank_stay_together();
    tracebacks_differ_in_one_line();
    equal_lines_meet_behind_different_ones();
    streams_do_not_mix();
    memory_is_bounded();
    thousands_of_equal_lines_fold();
    a_world_of_many_words();
    what_out_says_is_handed_through();
    return plan_done();
}
